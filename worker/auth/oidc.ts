import { createLocalJWKSet, createRemoteJWKSet, type JSONWebKeySet, type JWTVerifyGetKey, jwtVerify } from "jose";
import { EverdictError } from "../../contracts/errors.ts";
import type { Config } from "../environment.ts";

const sets = new Map<string, JWTVerifyGetKey>();

function keySet(jwks: string): JWTVerifyGetKey {
  let set = sets.get(jwks);
  if (!set) {
    set = jwks.trimStart().startsWith("{")
      ? createLocalJWKSet(JSON.parse(jwks) as JSONWebKeySet)
      : createRemoteJWKSet(new URL(jwks), { timeoutDuration: 5_000, cooldownDuration: 30_000 });
    sets.set(jwks, set);
  }
  return set;
}

/** Asymmetric signatures only: with an HMAC algorithm a public key could be used as the secret. */
const ALGORITHMS = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"];

/**
 * The subject of a person's token.
 * @throws EverdictError UNAUTHENTICATED when issuer, audience, time or signature are not right; UNAVAILABLE when the
 * issuer's keys cannot be fetched
 */
export async function verifyPersonToken(token: string, config: Config, nowMs: number): Promise<string> {
  if (!config.oidc) {
    throw new EverdictError("UNAUTHENTICATED", "this deployment has no token issuer configured; use an API key (ak_…)");
  }
  try {
    const { payload } = await jwtVerify(token, keySet(config.oidc.jwks), {
      issuer: config.oidc.issuer,
      audience: config.oidc.audience,
      algorithms: ALGORITHMS,
      requiredClaims: ["sub", "exp"],
      currentDate: new Date(nowMs),
      clockTolerance: 30,
    });
    const subject = payload.sub ?? "";
    if (subject.length === 0 || subject.length > 300)
      throw new EverdictError("UNAUTHENTICATED", "the token's subject must have 1 to 300 characters");
    return subject;
  } catch (error) {
    if (error instanceof EverdictError) throw error;
    const code = error instanceof Error && "code" in error ? String(error.code) : "";
    if (code === "ERR_JWKS_TIMEOUT" || (error instanceof TypeError && !code)) {
      throw new EverdictError("UNAVAILABLE", "the token issuer's keys could not be fetched; try again", {
        retryAfterSec: 5,
        cause: error,
      });
    }
    throw new EverdictError(
      "UNAUTHENTICATED",
      "the token is not valid here: its issuer, audience, times or signature do not match",
      { cause: error },
    );
  }
}
