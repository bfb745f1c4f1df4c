// The page of `voxcli serve`: asks for a PCM stream, plays it as it comes, draws it, counts.

const $ = (id) => document.getElementById(id);
// How much waits before the first sample sounds: as `voxcli stream` does, see audio/prebuffer.py.
const MARGIN = 1.25; // machines slow down for a while
const LARGEST_CHUNK_S = 0.64;
const LEAST_S = 0.15;
const PEAK_S = 0.02; // of audio in one bar of the waveform's data

const page = { model: null, voices: [], context: null, run: null, key: sessionStorage.getItem("key") || "" };

function say(text, isBad = false, where = "status") {
  $(where).textContent = text;
  $(where).classList.toggle("bad", isBad);
}

function setState(state) {
  document.body.dataset.state = state;
  const isSpeaking = state === "speaking";
  $("speak").disabled = isSpeaking || !page.model;
  $("stop").disabled = !isSpeaking && !page.run?.isPlaying;
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
  page.voices = voices.filter((voice) => !voice.problem && (!voice.is_own || voice.models.includes(page.model.id)));
  const options = page.voices.map(({ name }) => new Option(name, name, false, name === chosen));
  $("voice").replaceChildren(...options);
  showVoiceButtons();
}

// The page makes voices where the model can, and changes those that somebody saved.
function showVoiceButtons() {
  const canMake = page.model.modes.includes("reference");
  const isOwn = page.voices.some(({ name, is_own: isOwn }) => isOwn && name === $("voice").value);
  $("new-voice").hidden = !canMake;
  $("replace-voice").hidden = !canMake || !isOwn;
  $("rename-voice").hidden = $("delete-voice").hidden = !isOwn;
}

// ---------------------------------------------------------------- speaking

export class Run {
  constructor() {
    this.parts = [];
    this.peaks = [];
    this.loudest = 0;
    this.inPeak = 0;
    this.numSamples = 0;
    this.estimateS = 0; // of the whole speech, as the server tells
    this.position = 0; // the next sample that sounds
    this.isPlaying = false;
    this.isBegun = false; // it has played, or was told not to
    this.isComplete = false;
    this.firstMs = null; // when the first samples came, and how many they were
    this.numFirst = 0;
    this.abort = new AbortController();
    this.node = null;
  }

  add(samples, nowMs) {
    if (this.firstMs === null) {
      this.firstMs = nowMs;
      this.numFirst = samples.length;
    }
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

  // Real-time factor of what came after the first piece, whose time holds the text's preparation.
  rtf(nowMs) {
    const audioS = (this.numSamples - this.numFirst) / page.model.sample_rate;
    return audioS > 0 ? (nowMs - this.firstMs) / 1000 / audioS : null;
  }

  // Seconds that must wait before playing begins, so that it does not run dry.
  neededS(rtf) {
    const slow = MARGIN * rtf;
    const remainingS = Math.max(0, this.estimateS - this.audioS);
    const nextS = Math.min(2 * this.audioS, LARGEST_CHUNK_S);
    return Math.max(LEAST_S, Math.max(0, slow - 1) * remainingS + slow * nextS);
  }

  tell(message) { this.node?.port.postMessage(message); }

  play(isPlaying = true) {
    this.isBegun = true;
    const isAtEnd = this.isComplete && this.position >= this.numSamples;
    this.tell({ isPlaying, position: isPlaying && isAtEnd ? 0 : undefined });
  }

  stop() {
    this.abort.abort();
    this.play(false);
  }

  close() {
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
  run.node = new AudioWorkletNode(page.context, "player", { numberOfInputs: 0, outputChannelCount: [1] });
  run.node.port.onmessage = ({ data }) => {
    Object.assign(run, { position: data.position, isPlaying: data.isPlaying });
    if (page.run !== run) return;
    $("gaps").textContent = data.gaps;
    document.body.dataset.playing = data.isPlaying;
    setState(document.body.dataset.state);
    showPosition(run);
  };
  run.node.connect(page.context.destination);
}

async function speak() {
  page.run?.close();
  const run = new Run();
  page.run = run;
  showResult(null);
  showPosition(run);
  for (const id of ["ttfa", "length", "made-in", "gaps", "used-seed"]) $(id).textContent = "–";
  $("keep-seed").hidden = true;
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
    run.estimateS = Number(answer.headers.get("X-Estimated-Seconds"));
    await receive(run, answer, began);
    finish(run, "done", "");
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
    if (!count) continue;
    const samples = new Int16Array(bytes.buffer, 0, count);
    const now = performance.now();
    if (!run.numSamples) {
      $("ttfa").textContent = `${Math.round(now - began)} ms`;
      document.body.dataset.samplesBeforeEnd = count;
      $("used-seed").textContent = answer.headers.get("X-Seed");
      $("keep-seed").hidden = false;
      say("");
    }
    run.add(samples, now);
    run.tell({ samples });
    $("length").textContent = `${run.audioS.toFixed(1)} s`;
    $("made-in").textContent = `${((now - began) / 1000).toFixed(2)} s`;
    if (!run.isBegun) beginInTime(run, now);
  }
  run.isComplete = true;
  run.tell({ isComplete: true });
  document.body.dataset.samples = run.numSamples;
  if (!run.isBegun) run.play();
}

// Begins to play once it will not run dry, and says honestly how long that is still to come.
function beginInTime(run, nowMs) {
  const rtf = run.rtf(nowMs);
  if (rtf === null) return;
  const neededS = run.neededS(rtf);
  if (run.audioS >= neededS) {
    say("");
    run.play();
  } else if (MARGIN * rtf > 1) {
    const share = MARGIN * rtf - 1; // of what is still to come, which has to be there before
    const waitS = Math.max(1, rtf * ((neededS - run.audioS) / (1 + share)));
    say(`Speech is made at ${(1 / rtf).toFixed(1)}× real time. It begins in about ${Math.round(waitS)} s.`);
  }
}

function finish(run, state, text) {
  if (text || state === "error") say(text, state === "error");
  if (run.numSamples) {
    run.isComplete = true;
    run.tell({ isComplete: true });
    showResult(run);
  }
  setState(state);
  showPosition(run);
}

// ---------------------------------------------------------------- result

const clock = (seconds) => {
  const whole = Math.round(seconds);
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
};

function showPosition(run) {
  const rate = page.model.sample_rate;
  const positionS = run.position / rate;
  $("play").disabled = $("position").disabled = !run.numSamples;
  $("play").textContent = run.isPlaying ? "Pause" : "Play";
  $("position").max = run.audioS;
  $("position").value = positionS;
  $("position").setAttribute("aria-valuetext", `${positionS.toFixed(1)} of ${run.audioS.toFixed(1)} seconds`);
  $("time").textContent = `${clock(positionS)} / ${clock(run.audioS)}`;
}

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
  const playedBars = (page.run?.position ?? 0) / (PEAK_S * (page.model?.sample_rate ?? 1)) / perBar;
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
      $("file").value = "";
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

// What is sent: the one recording or file that came last, or nothing.
function setRecording(blob) {
  if (recording.blob) URL.revokeObjectURL($("preview").src);
  recording.blob = blob;
  $("preview").hidden = !blob;
  if (blob) $("preview").src = URL.createObjectURL(blob);
  else $("preview").removeAttribute("src");
}

async function saveVoice(mayReplace = false) {
  if (!recording.blob) throw new Error("record something, or choose a file");
  const name = $("voice-name").value.trim();
  const form = new FormData();
  form.append("name", name);
  form.append("consent", "confirmed on the page");
  form.append("ref_text", $("transcript").value.trim());
  form.append("overwrite", String(mayReplace));
  form.append("audio_sample", recording.blob, "recording.wav");
  say("checking and encoding…", false, "voice-status");
  let answer;
  try {
    answer = await ask("/v1/audio/voices", { method: "POST", body: form });
  } catch (error) {
    if (error.status !== 409 || mayReplace) throw error;
    say("", false, "voice-status");
    const isWanted = await question(`There is a voice ${name} already. Replace it?`, "Replace");
    return isWanted ? saveVoice(true) : undefined;
  }
  const voice = await answer.json();
  await showVoices(voice.name);
  $("voice-dialog").close();
  say(`voice ${voice.name} is saved`);
}

// ---------------------------------------------------------------- changes of a voice

// Asks, and resolves to whether the answer was yes.
function question(text, yes) {
  $("question").textContent = text;
  $("question-yes").textContent = yes;
  const dialog = $("question-dialog");
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    // the event comes a moment after its dialog has closed, and may belong to the question before
    dialog.onclose = () => { if (!dialog.open) resolve(dialog.returnValue === "yes"); };
  });
}

function openVoiceDialog(name) {
  setRecording(null);
  $("file").value = "";
  $("voice-title").textContent = name ? `Replace voice ${name}` : "New voice";
  $("voice-name").value = name;
  $("transcript").value = "";
  $("consent").checked = false;
  say("", false, "voice-status");
  $("voice-dialog").showModal();
}

const voicePath = (name) => `/v1/audio/voices/${encodeURIComponent(name)}`;

async function renameVoice() {
  const name = $("voice").value;
  const answer = await ask(voicePath(name), {
    method: "PATCH",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ name: $("new-name").value.trim() }),
  });
  const renamed = (await answer.json()).name;
  await showVoices(renamed);
  $("rename-dialog").close();
  say(`voice ${name} is now called ${renamed}`);
}

async function deleteVoice() {
  const name = $("voice").value;
  if (!await question(`Delete voice ${name}? Nothing can bring it back.`, "Delete")) return;
  await ask(voicePath(name), { method: "DELETE" });
  await showVoices();
  say(`voice ${name} is deleted`);
}

// ---------------------------------------------------------------- events

const telling = (where, promise) => promise.catch((error) => say(error.message, true, where));

$("form").addEventListener("submit", (event) => { event.preventDefault(); speak(); });
$("stop").addEventListener("click", () => page.run.stop());
$("play").addEventListener("click", () => page.run.play(!page.run.isPlaying));
$("position").addEventListener("input", () => {
  page.run.tell({ position: Math.round(Number($("position").value) * page.model.sample_rate) });
});
$("keep-seed").addEventListener("click", () => { $("seed").value = $("used-seed").textContent; });
$("speed").addEventListener("input", () => {
  $("speed-value").textContent = `${Number($("speed").value).toFixed(1)}×`;
});
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault();
  page.key = $("key").value;
  sessionStorage.setItem("key", page.key);
  start();
});
$("voice").addEventListener("change", showVoiceButtons);
$("new-voice").addEventListener("click", () => openVoiceDialog(""));
$("replace-voice").addEventListener("click", () => openVoiceDialog($("voice").value));
$("delete-voice").addEventListener("click", () => telling("status", deleteVoice()));
$("rename-voice").addEventListener("click", () => {
  $("new-name").value = $("voice").value;
  say("", false, "rename-status");
  $("rename-dialog").showModal();
});
$("rename-cancel").addEventListener("click", () => $("rename-dialog").close());
$("rename-form").addEventListener("submit", (event) => {
  event.preventDefault();
  telling("rename-status", renameVoice());
});
$("voice-cancel").addEventListener("click", () => $("voice-dialog").close());
$("record").addEventListener("click", () => telling("voice-status", toggleRecording()));
$("voice-dialog").addEventListener("close", endRecording);
$("file").addEventListener("change", () => setRecording($("file").files[0] ?? null));
$("voice-form").addEventListener("submit", (event) => { event.preventDefault(); telling("voice-status", saveVoice()); });
document.addEventListener("keydown", (event) => {
  if (document.querySelector("dialog[open]")) return;
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) $("form").requestSubmit();
  if (event.key === "Escape" && !$("stop").disabled) $("stop").click();
});

start();
draw();
