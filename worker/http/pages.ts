import type { Env } from "../environment.ts";

/** No third party, no inline script; Swagger UI sets styles and data: images by itself. */
const SECURITY_HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/** A file of the web build, or null. */
export async function servePage(env: Env, request: Request): Promise<Response | null> {
  if (!env.ASSETS || (request.method !== "GET" && request.method !== "HEAD")) return null;
  const found = await env.ASSETS.fetch(request);
  if (found.status === 404) return null;
  const response = new Response(found.body, found);
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) response.headers.set(name, value);
  return response;
}
