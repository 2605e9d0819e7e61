/**
 * The singular of English nouns, for the names of classes.
 *
 * @module
 */

const IRREGULAR: ReadonlyMap<string, string> = new Map([
  ...pairs("people person children child men man women woman mice mouse feet foot teeth tooth"),
  ...pairs("geese goose criteria criterion phenomena phenomenon indices index vertices vertex"),
  ...pairs("matrices matrix appendices appendix movies movie cookies cookie ties tie pies pie"),
  ...pairs("lies lie dies die zombies zombie selfies selfie calories calorie caches cache"),
  ...pairs("axes axis aches ache shoes shoe toes toe buses bus gases gas biases bias"),
  ...pairs("aliases alias canvases canvas atlases atlas lenses lens leaves leaf lives life"),
  ...pairs("knives knife wives wife halves half shelves shelf wolves wolf selves self"),
  ...pairs("loaves loaf thieves thief quizzes quiz databases database"),
  ...pairs("bases base oases oasis synopses synopsis niches niche psyches psyche"),
]);

/** Words that end like plurals, or are both. */
const UNCHANGED = new Set(
  ("news series species means lens bus gas alias bias canvas atlas always status progress access " +
    "address process class this is has was as us yes plus minus js css https dns aws ios os " +
    "kubernetes redis analytics metadata data media info").split(" "),
);

/** The name for one of several. */
export function singular(plural: string): string | undefined {
  const word = lastWord(plural);
  if (word === "") return undefined;
  const one = singularWord(word.toLowerCase());
  if (one === undefined) return undefined;
  const start = plural.slice(0, plural.length - word.length);
  if (/^[A-Z]+s$/.test(word)) return start + word.slice(0, -1);
  const isCapital = /^[A-Z]/.test(word);
  return start + (isCapital ? one.charAt(0).toUpperCase() + one.slice(1) : one);
}

/** `Id` of `userId`, `IDs` of `userIDs`; read from the end, which is linear. */
function lastWord(name: string): string {
  const startOf = (end: number, isPart: RegExp) => {
    let at = end;
    while (at > 0 && isPart.test(name.charAt(at - 1))) at--;
    return at;
  };
  const end = name.endsWith("s") ? name.length - 1 : name.length;
  const capitals = startOf(end, /[A-Z]/);
  if (end - capitals > 1) return name.slice(capitals);
  const small = startOf(name.length, /[a-z]/);
  if (small === name.length) return name.slice(capitals);
  return name.slice(/[A-Z]/.test(name.charAt(small - 1)) ? small - 1 : small);
}

function singularWord(word: string): string | undefined {
  const irregular = IRREGULAR.get(word);
  if (irregular !== undefined) return irregular;
  if (UNCHANGED.has(word) || word.length < 3 || !word.endsWith("s")) return undefined;
  if (/(?:ss|us|is)$/.test(word)) return undefined;
  if (word.endsWith("ies") && word.length > 4) return `${word.slice(0, -3)}y`;
  // "statuses" but "causes", "houses" and "uses"
  if (/(?:ss|sh|ch|x|zz|[^aoef]us|o)es$/.test(word) && !/^(?:use|cause)s$/.test(word)) {
    return word.slice(0, -2);
  }
  if (/(?:analy|cri|the|diagno|hypothe|synthe|parenthe|paraly)ses$/.test(word)) {
    return `${word.slice(0, -2)}is`;
  }
  return word.slice(0, -1);
}

function pairs(words: string): [string, string][] {
  const list = words.split(" ");
  return list.flatMap((word, at) => at % 2 === 0 ? [[word, list[at + 1] ?? ""]] : []);
}
