import * as oauth from "oauth4webapi";
import { EverdictError } from "../../contracts/errors.ts";
import type { Config } from "../environment.ts";
import { browserOrigin, type PendingSignIn } from "./session.ts";

const CALLBACK_PATH = "/session/oidc/callback";
/** The provider's addresses and keys may change; after so long they are read again. */
const DISCOVERY_KEPT_MS = 3_600_000;
const CALL_MS = 10_000;
const CLOCK_TOLERANCE_SEC = 30;

type SignIn = NonNullable<Config["signIn"]>;
const discovered = new Map<string, { server: oauth.AuthorizationServer; untilMs: number }>();

/** @throws EverdictError NOT_FOUND when this deployment has no identity provider */
function signInOf(config: Config): SignIn {
  if (!config.signIn)
    throw new EverdictError("NOT_FOUND", "this deployment has no identity provider; sign in with an API key");
  return config.signIn;
}

/** Plain http only between parts of one developer's machine. */
const options = (config: Config) => ({
  signal: AbortSignal.timeout(CALL_MS),
  [oauth.allowInsecureRequests]: config.dev,
});

const clientOf = (signIn: SignIn): oauth.Client => ({
  client_id: signIn.clientId,
  [oauth.clockTolerance]: CLOCK_TOLERANCE_SEC,
});

function clientAuth(signIn: SignIn, server: oauth.AuthorizationServer): oauth.ClientAuth {
  if (signIn.clientSecret === null) return oauth.None();
  const methods = server.token_endpoint_auth_methods_supported ?? ["client_secret_basic"];
  return methods.includes("client_secret_basic")
    ? oauth.ClientSecretBasic(signIn.clientSecret)
    : oauth.ClientSecretPost(signIn.clientSecret);
}

const unavailable = (what: string, cause: unknown) =>
  new EverdictError("UNAVAILABLE", `the identity provider ${what}; try again`, { retryAfterSec: 5, cause });

async function discover(config: Config, nowMs: number): Promise<oauth.AuthorizationServer> {
  const { issuer } = signInOf(config);
  const known = discovered.get(issuer);
  if (known && known.untilMs > nowMs) return known.server;
  try {
    const url = new URL(issuer);
    const server = await oauth.processDiscoveryResponse(url, await oauth.discoveryRequest(url, options(config)));
    if (!server.authorization_endpoint || !server.token_endpoint || !server.jwks_uri)
      throw new Error("its discovery document names no authorization_endpoint, token_endpoint or jwks_uri");
    discovered.set(issuer, { server, untilMs: nowMs + DISCOVERY_KEPT_MS });
    return server;
  } catch (error) {
    throw unavailable("did not answer with its discovery document", error);
  }
}

const redirectUri = (request: Request, config: Config): string => browserOrigin(request, config) + CALLBACK_PATH;

/**
 * Where to send the browser, and what it must bring back.
 * @throws EverdictError NOT_FOUND, UNAVAILABLE
 */
export async function beginSignIn(
  request: Request,
  config: Config,
  returnTo: string,
  nowMs: number,
): Promise<{ url: string; pending: PendingSignIn }> {
  const signIn = signInOf(config);
  const server = await discover(config, nowMs);
  const pending = {
    state: oauth.generateRandomState(),
    nonce: oauth.generateRandomNonce(),
    verifier: oauth.generateRandomCodeVerifier(),
    returnTo,
  };
  const url = new URL(server.authorization_endpoint ?? "");
  for (const [name, value] of Object.entries({
    response_type: "code",
    client_id: signIn.clientId,
    redirect_uri: redirectUri(request, config),
    scope: signIn.scopes,
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: await oauth.calculatePKCECodeChallenge(pending.verifier),
    code_challenge_method: "S256",
  }))
    url.searchParams.set(name, value);
  return { url: url.toString(), pending };
}

/**
 * Who came back: state, nonce, PKCE, issuer, audience, times and signature are checked.
 * @throws EverdictError UNAUTHENTICATED when any of them is not right, or the provider says no; UNAVAILABLE
 */
export async function completeSignIn(
  request: Request,
  config: Config,
  pending: PendingSignIn,
  nowMs: number,
): Promise<{ issuer: string; subject: string }> {
  const signIn = signInOf(config);
  const server = await discover(config, nowMs);
  const client = clientOf(signIn);
  try {
    const answer = oauth.validateAuthResponse(server, client, new URL(request.url), pending.state);
    const response = await oauth.authorizationCodeGrantRequest(
      server,
      client,
      clientAuth(signIn, server),
      answer,
      redirectUri(request, config),
      pending.verifier,
      options(config),
    );
    const tokens = await oauth.processAuthorizationCodeResponse(server, client, response, {
      expectedNonce: pending.nonce,
      requireIdToken: true,
    });
    await oauth.validateApplicationLevelSignature(server, response, options(config));
    const subject = oauth.getValidatedIdTokenClaims(tokens)?.sub ?? "";
    if (subject.length === 0 || subject.length > 300)
      throw new EverdictError("UNAUTHENTICATED", "the identity provider's subject must have 1 to 300 characters");
    return { issuer: signIn.issuer, subject };
  } catch (error) {
    throw refusal(error);
  }
}

/** What may be told: the provider's error code, never what it was sent or sent back. */
function refusal(error: unknown): EverdictError {
  if (error instanceof EverdictError) return error;
  if (error instanceof oauth.AuthorizationResponseError || error instanceof oauth.ResponseBodyError) {
    const said = /^[a-z_]{1,60}$/.test(error.error) ? error.error : "an error";
    return new EverdictError("UNAUTHENTICATED", `the identity provider refused: ${said}`, { data: { provider: said } });
  }
  if (error instanceof TypeError || (error instanceof DOMException && error.name === "TimeoutError"))
    return unavailable("did not answer", error);
  return new EverdictError(
    "UNAUTHENTICATED",
    "what came back from the identity provider does not belong to this sign-in; sign in again",
    { cause: error },
  );
}
