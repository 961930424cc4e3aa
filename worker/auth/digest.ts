const encoder = new TextEncoder();

export const toHex = (bytes: Uint8Array): string =>
  [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");

export function toBase64(bytes: Uint8Array): string {
  let binary = "";
  for (let i = 0; i < bytes.length; i += 0x8000) binary += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(binary);
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const out = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) out[i] = binary.charCodeAt(i);
  return out;
}

export const toBase64Url = (bytes: Uint8Array): string =>
  toBase64(bytes).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");

export function fromBase64Url(text: string): Uint8Array<ArrayBuffer> | null {
  if (!/^[A-Za-z0-9_-]*$/.test(text)) return null;
  try {
    return fromBase64(text.replaceAll("-", "+").replaceAll("_", "/"));
  } catch {
    return null;
  }
}

/** SHA-256 in hex. */
export async function sha256(text: string): Promise<string> {
  return toHex(new Uint8Array(await crypto.subtle.digest("SHA-256", encoder.encode(text))));
}

const keys = new Map<string, Promise<CryptoKey>>();

function hmacKey(signingKey: string): Promise<CryptoKey> {
  let key = keys.get(signingKey);
  if (!key) {
    key = crypto.subtle.importKey("raw", fromBase64(signingKey), { name: "HMAC", hash: "SHA-256" }, false, [
      "sign",
      "verify",
    ]);
    keys.set(signingKey, key);
  }
  return key;
}

/** HMAC-SHA-256 of `text` for one purpose, base64url; a signature for one purpose is worthless for another. */
export async function sign(signingKey: string, purpose: string, text: string): Promise<string> {
  const mac = await crypto.subtle.sign("HMAC", await hmacKey(signingKey), encoder.encode(`${purpose}\n${text}`));
  return toBase64Url(new Uint8Array(mac));
}

/** Whether `signature` is ours; the comparison is WebCrypto's own, in constant time. */
export async function verify(signingKey: string, purpose: string, text: string, signature: string): Promise<boolean> {
  const bytes = fromBase64Url(signature);
  if (bytes === null) return false;
  return crypto.subtle.verify("HMAC", await hmacKey(signingKey), bytes, encoder.encode(`${purpose}\n${text}`));
}

/** 256 random bits, base64url: the secret part of every token. */
export const randomSecret = (): string => toBase64Url(crypto.getRandomValues(new Uint8Array(32)));
