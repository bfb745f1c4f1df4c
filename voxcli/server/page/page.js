// The page of `voxcli serve`: asks for a PCM stream, plays it as it comes, draws it, counts.

const $ = (id) => document.getElementById(id);
const LEAD_S = 0.15; // audio that waits before the first sample sounds
const PEAK_S = 0.02; // of audio in one bar of the waveform's data

const page = { model: null, context: null, run: null, key: sessionStorage.getItem("key") || "" };

function say(text, isBad = false, where = "status") {
  $(where).textContent = text;
  $(where).classList.toggle("bad", isBad);
}

function setState(state) {
  document.body.dataset.state = state;
  const isSpeaking = state === "speaking";
  $("speak").disabled = isSpeaking || !page.model;
  $("stop").disabled = !isSpeaking;
}

async function ask(path, options = {}) {
  const headers = { ...options.headers };
  if (page.key) headers.Authorization = `Bearer ${page.key}`;
  const answer = await fetch(path, { ...options, headers });
  if (answer.status === 401) $("key-form").hidden = false;
  if (!answer.ok) {
    const body = await answer.json().catch(() => null);
    const error = new Error(body?.error?.message ?? `the server answered ${answer.status}`);
    error.status = answer.status;
    throw error;
  }
  return answer;
}

// ---------------------------------------------------------------- set-up

async function start() {
  try {
    const health = await (await fetch("/health")).json();
    if (health.status === "loading") {
      $("model").textContent = `${health.model} is loading…`;
      setTimeout(start, 500);
      return;
    }
    const list = await (await ask("/v1/models")).json();
    page.model = list.data[0];
    $("key-form").hidden = true;
    $("model").textContent = `${page.model.id} · ${page.model.sample_rate / 1000} kHz`;
    $("new-voice").hidden = !page.model.modes.includes("reference");
    await showVoices();
    say("");
    setState("idle");
  } catch (error) {
    $("model").textContent = "";
    say(error.message, true);
  }
}

async function showVoices(chosen = "default") {
  const { voices } = await (await ask("/v1/audio/voices")).json();
  const usable = voices.filter(({ name, models }) => name === "default" || models.includes(page.model.id));
  const options = usable.map(({ name }) => new Option(name, name, false, name === chosen));
  $("voice").replaceChildren(...options);
}

// ---------------------------------------------------------------- speaking

class Run {
  constructor() {
    this.parts = [];
    this.peaks = [];
    this.loudest = 0;
    this.inPeak = 0;
    this.numSamples = 0;
    this.played = 0;
    this.abort = new AbortController();
    this.node = null;
  }

  add(samples) {
    this.parts.push(samples);
    this.numSamples += samples.length;
    const size = Math.round(PEAK_S * page.model.sample_rate);
    for (const sample of samples) {
      this.loudest = Math.max(this.loudest, Math.abs(sample));
      if (++this.inPeak === size) {
        this.peaks.push(this.loudest / 32768);
        this.loudest = this.inPeak = 0;
      }
    }
  }

  get audioS() { return this.numSamples / page.model.sample_rate; }

  stop() {
    this.abort.abort();
    this.node?.disconnect();
    this.node = null;
  }
}

async function openPlayer(run) {
  const rate = page.model.sample_rate;
  if (!page.context) {
    page.context = new AudioContext({ sampleRate: rate, latencyHint: "interactive" });
    await page.context.audioWorklet.addModule("/page/worklets.js");
  }
  await page.context.resume();
  const options = { numberOfInputs: 0, outputChannelCount: [1], processorOptions: { lead: LEAD_S * rate } };
  run.node = new AudioWorkletNode(page.context, "player", options);
  run.node.port.onmessage = ({ data }) => {
    run.played = data.played;
    $("gaps").textContent = data.gaps;
    if (data.isOver && page.run === run) finish(run, "done", "");
  };
  run.node.connect(page.context.destination);
}

async function speak() {
  page.run?.stop();
  const run = new Run();
  page.run = run;
  showResult(null);
  for (const id of ["ttfa", "length", "rtf", "gaps"]) $(id).textContent = "–";
  say("asking…");
  setState("speaking");
  const body = {
    model: page.model.id,
    input: $("text").value,
    voice: $("voice").value,
    speed: Number($("speed").value),
    response_format: "pcm",
    sample_rate: page.model.sample_rate,
    stream: true,
  };
  if ($("seed").value) body.seed = Number($("seed").value);
  try {
    await openPlayer(run);
    const began = performance.now();
    const answer = await ask("/v1/audio/speech", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal: run.abort.signal,
    });
    await receive(run, answer, began);
  } catch (error) {
    if (page.run !== run) return;
    const isStopped = run.abort.signal.aborted;
    run.stop();
    finish(run, isStopped ? "done" : "error", isStopped ? "stopped" : error.message);
  }
}

async function receive(run, answer, began) {
  const reader = answer.body.getReader();
  let left = new Uint8Array(0); // half a sample may be left from the piece before
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const bytes = new Uint8Array(left.length + value.length);
    bytes.set(left);
    bytes.set(value, left.length);
    const count = bytes.length >> 1;
    left = bytes.slice(2 * count);
    const samples = new Int16Array(bytes.buffer, 0, count);
    if (!run.numSamples && count) {
      const ttfaMs = performance.now() - began;
      $("ttfa").textContent = `${Math.round(ttfaMs)} ms`;
      document.body.dataset.samplesBeforeEnd = count;
      say(`seed ${answer.headers.get("X-Seed")}`);
    }
    run.add(samples);
    run.node.port.postMessage(Float32Array.from(samples, (sample) => sample / 32768));
    const wallS = (performance.now() - began) / 1000;
    $("length").textContent = `${run.audioS.toFixed(1)} s`;
    $("rtf").textContent = (wallS / run.audioS).toFixed(2);
  }
  run.node.port.postMessage("end");
  document.body.dataset.samples = run.numSamples;
  showResult(run);
}

function finish(run, state, text) {
  if (text) say(text, state === "error");
  if (run.numSamples) showResult(run);
  setState(state);
}

// ---------------------------------------------------------------- result

function showResult(run) {
  const link = $("download");
  if (link.href) URL.revokeObjectURL(link.href);
  link.hidden = !run;
  if (run) link.href = URL.createObjectURL(wavOf(run.parts, page.model.sample_rate));
}

function wavOf(parts, rate) {
  const size = parts.reduce((sum, part) => sum + 2 * part.length, 0);
  const header = new DataView(new ArrayBuffer(44));
  const text = (at, letters) => [...letters].forEach((c, i) => header.setUint8(at + i, c.charCodeAt(0)));
  text(0, "RIFF"); header.setUint32(4, 36 + size, true); text(8, "WAVEfmt ");
  header.setUint32(16, 16, true); header.setUint16(20, 1, true); header.setUint16(22, 1, true);
  header.setUint32(24, rate, true); header.setUint32(28, 2 * rate, true);
  header.setUint16(32, 2, true); header.setUint16(34, 16, true);
  text(36, "data"); header.setUint32(40, size, true);
  return new Blob([header, ...parts], { type: "audio/wav" });
}

function draw() {
  requestAnimationFrame(draw);
  const canvas = $("wave");
  const scale = devicePixelRatio || 1;
  const width = Math.round(canvas.clientWidth * scale);
  const height = Math.round(canvas.clientHeight * scale);
  if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
  const pen = canvas.getContext("2d");
  const style = getComputedStyle(document.documentElement);
  pen.clearRect(0, 0, width, height);
  const step = 4 * scale; // a bar and the space after it
  const numBars = Math.floor(width / step);
  const peaks = page.run?.peaks ?? [];
  const perBar = Math.max(1, peaks.length / numBars);
  const playedBars = (page.run?.played ?? 0) / (PEAK_S * (page.model?.sample_rate ?? 1)) / perBar;
  for (let bar = 0; bar < numBars; bar++) {
    const from = Math.floor(bar * perBar);
    const loudest = Math.max(0, ...peaks.slice(from, Math.max(from + 1, Math.floor((bar + 1) * perBar))));
    const tall = Math.max(2 * scale, Math.min(1, 1.2 * Math.sqrt(loudest)) * height);
    pen.fillStyle = style.getPropertyValue(bar < playedBars && from < peaks.length ? "--accent" : "--wave");
    pen.beginPath();
    pen.roundRect(bar * step, (height - tall) / 2, 2.5 * scale, tall, 1.25 * scale);
    pen.fill();
  }
}

// ---------------------------------------------------------------- a new voice

const recording = { blob: null, parts: null, context: null, stream: null };

async function toggleRecording() {
  $("record").disabled = true; // until the microphone has answered
  try {
    if (recording.parts) {
      const { parts, context: { sampleRate } } = recording;
      await endRecording();
      const clip = (sample) => Math.max(-32768, Math.min(32767, Math.round(32768 * sample)));
      setRecording(wavOf(parts.map((part) => Int16Array.from(part, clip)), sampleRate));
    } else {
      await beginRecording();
    }
  } finally {
    $("record").disabled = false;
  }
}

async function beginRecording() {
  try {
    recording.stream = await navigator.mediaDevices.getUserMedia({
      audio: { echoCancellation: false, noiseSuppression: false, autoGainControl: false },
    });
    recording.context = new AudioContext();
    await recording.context.audioWorklet.addModule("/page/worklets.js");
    if (!$("voice-dialog").open) throw new Error("the dialog was closed");
    const node = new AudioWorkletNode(recording.context, "recorder", { numberOfOutputs: 0 });
    recording.parts = [];
    let numSamples = 0;
    node.port.onmessage = ({ data }) => {
      if (!recording.parts) return;
      recording.parts.push(data);
      numSamples += data.length;
      say(`${(numSamples / recording.context.sampleRate).toFixed(1)} s recorded`, false, "voice-status");
    };
    recording.context.createMediaStreamSource(recording.stream).connect(node);
    showRecording();
  } catch (error) {
    await endRecording();
    throw error;
  }
}

// Lets go of the microphone, whatever was begun.
async function endRecording() {
  const { stream, context } = recording;
  recording.parts = recording.stream = recording.context = null;
  showRecording();
  stream?.getTracks().forEach((track) => track.stop());
  await context?.close();
}

function showRecording() {
  $("record").setAttribute("aria-pressed", String(Boolean(recording.parts)));
  $("record").textContent = recording.parts ? "Stop recording" : "Record";
}

function setRecording(blob) {
  if (recording.blob) URL.revokeObjectURL($("preview").src);
  recording.blob = blob;
  $("preview").src = URL.createObjectURL(blob);
  $("preview").hidden = false;
}

async function saveVoice() {
  if (!recording.blob) throw new Error("record something, or choose a file");
  const form = new FormData();
  form.append("name", $("voice-name").value.trim());
  form.append("consent", "confirmed on the page");
  form.append("ref_text", $("transcript").value.trim());
  form.append("audio_sample", recording.blob, "recording.wav");
  say("checking and encoding…", false, "voice-status");
  const voice = await (await ask("/v1/audio/voices", { method: "POST", body: form })).json();
  await showVoices(voice.name);
  $("voice-dialog").close();
  say(`voice ${voice.name} is saved`);
}

// ---------------------------------------------------------------- events

const tellVoice = (promise) => promise.catch((error) => say(error.message, true, "voice-status"));

$("form").addEventListener("submit", (event) => { event.preventDefault(); speak(); });
$("stop").addEventListener("click", () => { page.run.stop(); finish(page.run, "done", "stopped"); });
$("speed").addEventListener("input", () => {
  $("speed-value").textContent = `${Number($("speed").value).toFixed(1)}×`;
});
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  page.key = $("key").value;
  sessionStorage.setItem("key", page.key);
  start();
});
$("new-voice").addEventListener("click", () => { say("", false, "voice-status"); $("voice-dialog").showModal(); });
$("voice-cancel").addEventListener("click", () => $("voice-dialog").close());
$("record").addEventListener("click", () => tellVoice(toggleRecording()));
$("voice-dialog").addEventListener("close", endRecording);
$("file").addEventListener("change", () => { if ($("file").files[0]) setRecording($("file").files[0]); });
$("voice-form").addEventListener("submit", (event) => { event.preventDefault(); tellVoice(saveVoice()); });
document.addEventListener("keydown", (event) => {
  if ($("voice-dialog").open) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
  if (event.key === "Escape" && !$("stop").disabled) $("stop").click();
});

start();
draw();
