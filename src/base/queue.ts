/** An unbounded queue for one consumer. All values pushed before `end()` are delivered. */
export class AsyncQueue<T> implements AsyncIterableIterator<T> {
  #values: T[] = [];
  #read = 0; // the number of #values already delivered; shift() is slow in a long queue
  #waiting: PromiseWithResolvers<IteratorResult<T>>[] = [];
  #ended = false;

  /** Adds a value. After `end()`, values are dropped. */
  push(value: T): void {
    if (this.#ended) return;
    const consumer = this.#waiting.shift();
    if (consumer === undefined) this.#values.push(value);
    else consumer.resolve({ value, done: false });
  }

  /** Ends the iteration once all values are delivered. */
  end(): void {
    this.#ended = true;
    for (const consumer of this.#waiting.splice(0)) consumer.resolve(END);
  }

  next(): Promise<IteratorResult<T>> {
    if (this.#read < this.#values.length) {
      const value = this.#values[this.#read++]!;
      if (this.#read * 2 >= this.#values.length) this.#forgetRead();
      return Promise.resolve({ value, done: false });
    }
    if (this.#ended) return Promise.resolve(END);
    const consumer = Promise.withResolvers<IteratorResult<T>>();
    this.#waiting.push(consumer);
    return consumer.promise;
  }

  return(): Promise<IteratorResult<T>> {
    this.#values = [];
    this.#read = 0;
    this.end();
    return Promise.resolve(END);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  #forgetRead(): void {
    this.#values.splice(0, this.#read);
    this.#read = 0;
  }
}

const END = { value: undefined, done: true } as const;
