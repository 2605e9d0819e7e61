const NOTES = {
  "monday.md": `# Monday

- Rehearsed the demo
- [ ] Book the train
- [x] Answer Mina
`,
  "tuesday.md": `# Tuesday

- [ ] Send Mina the budget
- Lunch with the auditors
`,
  "wednesday.md": `# Wednesday

- [x] Pay the rent
- [ ] Order a lamp
`,
};

/** The home of the person in the pictures. Disposing removes it. */
export class Home implements AsyncDisposable {
  private constructor(readonly path: string) {}

  /** Makes a home with a short path, which pictures show, and the person's notes in it. */
  static async create(): Promise<Home> {
    const home = new Home(await firstFree("/tmp/ada"));
    await Deno.mkdir(home.project);
    await Deno.mkdir(`${home.path}/notes`);
    for (const [name, text] of Object.entries(NOTES)) {
      await Deno.writeTextFile(`${home.path}/notes/${name}`, text);
    }
    return home;
  }

  get project(): string {
    return `${this.path}/project`;
  }

  /** Keeps ipybox from the settings, logins and state of whoever makes the pictures. */
  get env(): Readonly<Record<string, string>> {
    return {
      XDG_CONFIG_HOME: `${this.path}/.config`,
      XDG_DATA_HOME: `${this.path}/.local/share`,
      XDG_STATE_HOME: `${this.path}/.local/state`,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.path, { recursive: true });
  }
}

/** Makes a folder, with a number after its name if somebody has that name already. */
async function firstFree(name: string): Promise<string> {
  for (let number = 1;; number++) {
    const path = number === 1 ? name : `${name}${number}`;
    try {
      await Deno.mkdir(path, { mode: 0o700 });
      return path;
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) throw error;
    }
  }
}
