import { exportJWK, generateKeyPair, SignJWT } from "jose";

export interface IssuerFaults {
  /** Claims that stand in the ID token instead of the right ones; undefined leaves one out. */
  claims?: Record<string, unknown>;
  /** The ID token is signed by a key that the issuer does not publish. */
  foreignKey?: boolean;
}

/** An identity provider with the laws that matter: codes are good once, for one client, one redirect and one verifier. */
export interface OidcIssuer {
  readonly clientId: string;
  readonly clientSecret: string;
  faults: IssuerFaults;
  fetch(request: Request): Promise<Response>;
}

interface Grant {
  redirectUri: string;
  challenge: string;
  nonce: string | null;
  subject: string;
}

const base64Url = (bytes: Uint8Array): string =>
  btoa(String.fromCharCode(...bytes))
    .replaceAll("+", "-")
    .replaceAll("/", "_")
    .replaceAll("=", "");

const refuse = (error: string, status = 400): Response => Response.json({ error }, { status });

/**
 * @param issuer its address; requests to /authorize sign in whoever `login_hint` names, `ada` by default
 */
export async function oidcIssuer(issuer: string, redirectUris: readonly string[]): Promise<OidcIssuer> {
  const own = await generateKeyPair("ES256", { extractable: true });
  const foreign = await generateKeyPair("ES256", { extractable: true });
  const jwk = { ...(await exportJWK(own.publicKey)), kid: "k1", alg: "ES256", use: "sig" };
  const grants = new Map<string, Grant>();
  const clientId = "everdict-dashboard";
  const clientSecret = "client-secret-of-the-test";

  function authorize(url: URL): Response {
    const ask = (name: string) => url.searchParams.get(name);
    const redirectUri = ask("redirect_uri") ?? "";
    if (ask("client_id") !== clientId || !redirectUris.includes(redirectUri)) return refuse("invalid_request");
    const back = new URL(redirectUri);
    back.searchParams.set("state", ask("state") ?? "");
    back.searchParams.set("iss", issuer);
    if (
      ask("response_type") !== "code" ||
      ask("code_challenge_method") !== "S256" ||
      !ask("scope")?.includes("openid")
    ) {
      back.searchParams.set("error", "invalid_request");
    } else if (ask("login_hint") === "nobody") {
      back.searchParams.set("error", "access_denied");
    } else {
      const code = crypto.randomUUID();
      grants.set(code, {
        redirectUri,
        challenge: ask("code_challenge") ?? "",
        nonce: ask("nonce"),
        subject: ask("login_hint") ?? "ada",
      });
      back.searchParams.set("code", code);
      back.searchParams.set("session_state", "provider's own");
      back.searchParams.set("authuser", "0");
    }
    return new Response(null, { status: 302, headers: { location: back.toString() } });
  }

  async function token(request: Request): Promise<Response> {
    const form = new URLSearchParams(new TextDecoder().decode(await request.arrayBuffer()));
    // RFC 6749, 2.3.1: both parts are form-encoded before they are joined.
    const basic = atob(/^Basic (\S+)$/.exec(request.headers.get("authorization") ?? "")?.[1] ?? "");
    if (basic.split(":").map(decodeURIComponent).join(":") !== `${clientId}:${clientSecret}`)
      return refuse("invalid_client", 401);
    const code = form.get("code") ?? "";
    const grant = grants.get(code);
    grants.delete(code);
    const verifier = new TextEncoder().encode(form.get("code_verifier") ?? "");
    const challenge = base64Url(new Uint8Array(await crypto.subtle.digest("SHA-256", verifier)));
    if (!grant || grant.challenge !== challenge || grant.redirectUri !== form.get("redirect_uri"))
      return refuse("invalid_grant");
    const now = Math.floor(Date.now() / 1_000);
    const claims = {
      iss: issuer,
      aud: clientId,
      sub: grant.subject,
      nonce: grant.nonce,
      iat: now,
      exp: now + 300,
      ...that.faults.claims,
    };
    const idToken = await new SignJWT(claims)
      .setProtectedHeader({ alg: "ES256", kid: "k1" })
      .sign((that.faults.foreignKey ? foreign : own).privateKey);
    return Response.json({ access_token: "opaque", token_type: "Bearer", expires_in: 300, id_token: idToken });
  }

  const that: OidcIssuer = {
    clientId,
    clientSecret,
    faults: {},
    async fetch(request) {
      const url = new URL(request.url);
      switch (`${request.method} ${url.pathname}`) {
        case "GET /.well-known/openid-configuration":
          return Response.json({
            issuer,
            authorization_endpoint: `${issuer}/authorize`,
            token_endpoint: `${issuer}/token`,
            jwks_uri: `${issuer}/keys`,
            response_types_supported: ["code"],
            id_token_signing_alg_values_supported: ["ES256"],
            code_challenge_methods_supported: ["S256"],
            authorization_response_iss_parameter_supported: true,
          });
        case "GET /keys":
          return Response.json({ keys: [jwk] });
        case "GET /authorize":
          return authorize(url);
        case "POST /token":
          return token(request);
        default:
          return new Response("not found", { status: 404 });
      }
    },
  };
  return that;
}
