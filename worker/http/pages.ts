import type { Env } from "../environment.ts";

/** No third party, no inline script; Swagger UI sets styles and data: images by itself. */
const SECURITY_HEADERS = {
  "content-security-policy":
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  "x-content-type-options": "nosniff",
  "referrer-policy": "no-referrer",
};

/** Names of built files carry a hash of what is in them. */
const HASHED = "/dashboard/assets/";
const DASHBOARD = "/dashboard/";

/** A file of the web build, or null. Below /dashboard, what is no file is a page that the dashboard routes itself. */
export async function servePage(env: Pick<Env, "ASSETS">, request: Request): Promise<Response | null> {
  if (!env.ASSETS || (request.method !== "GET" && request.method !== "HEAD")) return null;
  const url = new URL(request.url);
  let found = await env.ASSETS.fetch(request);
  const routed = found.status === 404 && isRouted(url.pathname);
  if (routed) found = await env.ASSETS.fetch(new Request(new URL(DASHBOARD, url), request));
  if (found.status === 404) return null;
  const response = new Response(found.body, found);
  for (const [name, value] of Object.entries(SECURITY_HEADERS)) response.headers.set(name, value);
  response.headers.set(
    "cache-control",
    url.pathname.startsWith(HASHED) ? "public, max-age=31536000, immutable" : "no-cache",
  );
  return response;
}

const isRouted = (pathname: string): boolean =>
  (pathname === "/dashboard" || pathname.startsWith(DASHBOARD)) && !pathname.startsWith(HASHED);
