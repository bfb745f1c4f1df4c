// Runs on the audio thread. Player: keeps what it is sent, plays it from any place, and counts where
// it ran dry. Recorder: hands on what the microphone gives.

const BLOCKS_A_MESSAGE = 8; // some 20 ms

class Player extends AudioWorkletProcessor {
  constructor() {
    super();
    this.chunks = []; // { from, samples }, 16 bit, in order
    this.at = 0; // the chunk that is played
    this.position = 0; // the next sample
    this.total = 0;
    this.gaps = 0;
    this.isPlaying = false;
    this.isComplete = false;
    this.isDry = false;
    this.blocks = 0;
    this.port.onmessage = ({ data }) => this.heed(data);
  }

  heed({ samples, isComplete, isPlaying, position }) {
    if (samples) {
      this.chunks.push({ from: this.total, samples });
      this.total += samples.length;
    }
    if (isComplete) this.isComplete = true;
    if (position !== undefined) {
      this.position = Math.max(0, Math.min(position, this.total));
      this.at = Math.max(0, this.chunks.findLastIndex(({ from }) => from <= this.position));
      this.isDry = false;
    }
    if (isPlaying !== undefined) this.isPlaying = isPlaying;
    this.tell();
  }

  process(inputs, outputs) {
    if (!this.isPlaying) return true;
    const out = outputs[0][0];
    let filled = 0;
    while (filled < out.length && this.at < this.chunks.length) {
      const { from, samples } = this.chunks[this.at];
      const offset = this.position - from;
      const count = Math.min(samples.length - offset, out.length - filled);
      for (let i = 0; i < count; i++) out[filled + i] = samples[offset + i] / 32768;
      filled += count;
      this.position += count;
      if (offset + count === samples.length) this.at += 1;
    }
    const isOver = this.isComplete && this.position === this.total;
    const isDry = filled < out.length && !isOver;
    if (isDry && !this.isDry) this.gaps += 1;
    this.isDry = isDry;
    if (isOver) this.isPlaying = false;
    this.blocks += 1;
    if (isOver || this.blocks % BLOCKS_A_MESSAGE === 0) this.tell();
    return true;
  }

  tell() {
    const { position, gaps, isPlaying } = this;
    this.port.postMessage({ position, gaps, isPlaying });
  }
}

class Recorder extends AudioWorkletProcessor {
  process(inputs) {
    if (inputs[0].length) this.port.postMessage(inputs[0][0].slice());
    return true;
  }
}

registerProcessor("player", Player);
registerProcessor("recorder", Recorder);
