import { EverdictError } from "../../contracts/errors.ts";
import { fromBase64, toBase64 } from "../auth/digest.ts";
import type { VaultKeys } from "../environment.ts";

const IV_BYTES = 12;
const imported = new Map<string, Promise<CryptoKey>>();

function keyOf(vault: VaultKeys, id: string): Promise<CryptoKey> {
  const raw = vault.keys[id];
  if (raw === undefined) {
    throw new EverdictError(
      "UNAVAILABLE",
      `vault key '${id}' is not configured any more; add it to EVERDICT_VAULT_KEYS until rotation has re-sealed everything`,
      { retryAfterSec: 60 },
    );
  }
  let key = imported.get(raw);
  if (!key) {
    key = crypto.subtle.importKey("raw", fromBase64(raw), "AES-GCM", false, ["encrypt", "decrypt"]);
    imported.set(raw, key);
  }
  return key;
}

/** A sealed value is bound to its place: moved to another workspace or name it does not open. */
const placeOf = (workspace: string, name: string) => new TextEncoder().encode(`${workspace}/${name}`);

/** AES-256-GCM under the current key. */
export async function seal(
  vault: VaultKeys,
  workspace: string,
  name: string,
  value: string,
): Promise<{ keyId: string; sealed: string }> {
  const iv = crypto.getRandomValues(new Uint8Array(IV_BYTES));
  const key = await keyOf(vault, vault.current);
  const body = await crypto.subtle.encrypt(
    { name: "AES-GCM", iv, additionalData: placeOf(workspace, name) },
    key,
    new TextEncoder().encode(value),
  );
  const whole = new Uint8Array(IV_BYTES + body.byteLength);
  whole.set(iv);
  whole.set(new Uint8Array(body), IV_BYTES);
  return { keyId: vault.current, sealed: toBase64(whole) };
}

/** @throws EverdictError UNAVAILABLE when the key is gone or the value was tampered with */
export async function open(
  vault: VaultKeys,
  workspace: string,
  name: string,
  row: { keyId: string; sealed: string },
): Promise<string> {
  const key = await keyOf(vault, row.keyId);
  const whole = fromBase64(row.sealed);
  try {
    const plain = await crypto.subtle.decrypt(
      { name: "AES-GCM", iv: whole.subarray(0, IV_BYTES), additionalData: placeOf(workspace, name) },
      key,
      whole.subarray(IV_BYTES),
    );
    return new TextDecoder().decode(plain);
  } catch (error) {
    throw new EverdictError(
      "UNAVAILABLE",
      `secret '${name}' cannot be opened with vault key '${row.keyId}'; store it again`,
      { cause: error },
    );
  }
}
