// Runs on the audio thread. Player: plays what it is sent, without a gap, and counts where it ran
// dry. Recorder: hands on what the microphone gives.

class Player extends AudioWorkletProcessor {
  constructor(options) {
    super();
    this.lead = options.processorOptions.lead; // samples to wait for before the first one sounds
    this.queue = [];
    this.offset = 0; // in the first chunk of the queue
    this.waiting = 0; // samples in the queue
    this.played = 0;
    this.gaps = 0;
    this.isStarted = false;
    this.isComplete = false;
    this.isDry = false;
    this.port.onmessage = ({ data }) => {
      if (data === "end") this.isComplete = true;
      else { this.queue.push(data); this.waiting += data.length; }
    };
  }

  process(inputs, outputs) {
    const out = outputs[0][0];
    if (!this.isStarted) {
      if (this.waiting < this.lead && !this.isComplete) return true;
      this.isStarted = true;
    }
    let filled = 0;
    while (filled < out.length && this.queue.length) {
      const chunk = this.queue[0];
      const count = Math.min(chunk.length - this.offset, out.length - filled);
      out.set(chunk.subarray(this.offset, this.offset + count), filled);
      filled += count;
      this.offset += count;
      if (this.offset === chunk.length) { this.queue.shift(); this.offset = 0; }
    }
    this.waiting -= filled;
    this.played += filled;
    const isOver = this.isComplete && this.waiting === 0;
    const isDry = filled < out.length && !isOver;
    if (isDry && !this.isDry) this.gaps += 1;
    this.isDry = isDry;
    this.port.postMessage({ played: this.played, gaps: this.gaps, isOver });
    return !isOver;
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
