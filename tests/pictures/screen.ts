/** A character on a terminal, and how it is shown. */
export interface Cell {
  readonly char: string;
  readonly bold: boolean;
  /** 1 to 7 as in the escape sequences 31 to 37; 0 is the usual color. */
  readonly color: number;
}

/** All rows of a terminal, including those above its upper edge. */
export class Screen {
  readonly rows: Cell[][] = [[]];
  #row = 0;
  #column = 0;
  #bold = false;
  #color = 0;

  get cursor(): { readonly row: number; readonly column: number } {
    return { row: this.#row, column: this.#column };
  }

  write(text: string): void {
    const [plain = "", ...sequences] = text.split("\x1b[");
    this.#print(plain);
    for (const sequence of sequences) {
      const [all, parameters = "", command = ""] = /^([?\d;]*)([A-Za-z])/.exec(sequence) ?? [""];
      this.#obey(parameters, command);
      this.#print(sequence.slice(all.length));
    }
  }

  textOf(row: number): string {
    return (this.rows[row] ?? []).map(({ char }) => char).join("");
  }

  #print(text: string): void {
    for (const char of text) {
      if (char === "\r") this.#column = 0;
      else if (char === "\n") this.#breakLine();
      else if (char < " ") throw new Error(`Cannot draw the character ${JSON.stringify(char)}`);
      else this.#put(char);
    }
  }

  #breakLine(): void {
    this.#row++;
    this.#column = 0;
    this.rows[this.#row] ??= [];
  }

  #put(char: string): void {
    const row = this.rows[this.#row] ?? [];
    while (row.length < this.#column) row.push({ char: " ", bold: false, color: 0 });
    row[this.#column++] = { char, bold: this.#bold, color: this.#color };
  }

  #obey(parameters: string, command: string): void {
    if (parameters.startsWith("?")) return; // modes of the keyboard
    const count = Number(parameters || 1);
    if (command === "m") parameters.split(";").forEach((code) => this.#style(Number(code)));
    else if (command === "A") this.#row = Math.max(0, this.#row - count);
    else if (command === "C") this.#column += count;
    else if (command === "K" || command === "J") {
      this.rows[this.#row]?.splice(this.#column);
      if (command === "J") this.rows.splice(this.#row + 1);
    } else throw new Error(`Cannot draw the escape sequence "ESC [ ${parameters}${command}"`);
  }

  #style(code: number): void {
    if (code === 0) this.#bold = false;
    if (code === 1) this.#bold = true;
    if (code === 0 || code === 39) this.#color = 0;
    if (code > 30 && code < 38) this.#color = code - 30;
  }
}
