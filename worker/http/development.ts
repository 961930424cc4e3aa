import { EverdictError } from "../../contracts/errors.ts";
import type { Config } from "../environment.ts";

const LOOPBACK = /^(127\.0\.0\.1|localhost)(:\d{1,5})?$/i;

/**
 * The development server trusts callers without a credential, so it answers only what a person on this machine asked for:
 * a Host that a rebound DNS name cannot have, and no foreign Origin.
 * @throws EverdictError FORBIDDEN
 */
export function guardDevelopment(request: Request, config: Config): void {
  if (!config.dev) return;
  const host = request.headers.get("host") ?? new URL(request.url).host;
  if (!LOOPBACK.test(host))
    throw new EverdictError("FORBIDDEN", "the development server answers only as 127.0.0.1 or localhost");
  const origin = request.headers.get("origin");
  if (origin === null) return;
  const url = URL.canParse(origin) ? new URL(origin) : null;
  if (url === null || !LOOPBACK.test(url.host))
    throw new EverdictError("FORBIDDEN", "the development server refuses requests from other origins");
}
