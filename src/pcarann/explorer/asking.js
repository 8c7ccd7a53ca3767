/* Asking a model while sliders move: the last question alone counts, and its answer alone is handed on. */

/** `ask(question)` soon calls `run(question, signal)`; `done(answer, seconds)` and `failed(error)` hear of the last one only. */
export class Asking {
  constructor(run, { wait = 0, began = () => {}, done, failed = () => {} }) {
    Object.assign(this, { run, wait, began, done, failed });
    this.serial = 0;
  }

  /** Ask; what was asked before is dropped. */
  ask(question) {
    const mine = this.drop();
    this.began();
    this.timer = setTimeout(() => this.send(question, mine), this.wait);
  }

  /** Forget what was asked. */
  drop() {
    clearTimeout(this.timer);
    this.stop?.abort();
    return ++this.serial;
  }

  async send(question, mine) {
    this.stop = new AbortController();
    const start = performance.now();
    try {
      const answer = await this.run(question, this.stop.signal);
      if (mine === this.serial) this.done(answer, (performance.now() - start) / 1000, question);
    } catch (error) {
      if (mine === this.serial) this.failed(error);
    }
  }
}
