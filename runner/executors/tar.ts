/** One member of an archive. */
export interface TarEntry {
  /** Relative path of at most 100 bytes. */
  name: string;
  mode: number;
  /** Content, or null for a directory. */
  content: Uint8Array | null;
}

const BLOCK = 512;

function header(entry: TarEntry, size: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  const octal = (value: number, at: number, width: number): void => {
    block.write(value.toString(8).padStart(width - 1, "0"), at, "ascii");
  };
  block.write(entry.name, 0, 100, "utf8");
  octal(entry.mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(size, 124, 12);
  octal(0, 136, 12);
  block.write(entry.content === null ? "5" : "0", 156, "ascii");
  block.write("ustar\u000000", 257, "latin1");
  block.fill(0x20, 148, 156);
  let sum = 0;
  for (const byte of block) sum += byte;
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
  return block;
}

/** A ustar archive owned by root, as the engine's archive endpoint takes it. */
export function tarOf(entries: readonly TarEntry[]): Buffer {
  const parts: Buffer[] = [];
  for (const entry of entries) {
    const content = entry.content ?? new Uint8Array();
    parts.push(
      header(entry, content.length),
      Buffer.from(content),
      Buffer.alloc((BLOCK - (content.length % BLOCK)) % BLOCK),
    );
  }
  return Buffer.concat([...parts, Buffer.alloc(BLOCK * 2)]);
}

/** Content of the first regular file in an archive, or null. */
export function firstFileOf(archive: Buffer): Buffer | null {
  for (let at = 0; at + BLOCK <= archive.length; ) {
    const size = Number.parseInt(archive.toString("latin1", at + 124, at + 136), 8);
    const type = archive.toString("latin1", at + 156, at + 157);
    if (!Number.isInteger(size)) return null;
    const start = at + BLOCK;
    if (type === "0" || type === "\0")
      return start + size <= archive.length ? archive.subarray(start, start + size) : null;
    at = start + Math.ceil(size / BLOCK) * BLOCK;
  }
  return null;
}
