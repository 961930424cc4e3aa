import type { RelayReset } from "../../contracts/relay-protocol.ts";

/** Why a request does not get its answer, in words that may be shown: they hold no credential and no text of others. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly code: RelayReset["code"];

  constructor(code: RelayReset["code"], message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.code = code;
  }
}
