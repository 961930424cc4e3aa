import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type OidcIssuer, oidcIssuer } from "./oidc-issuer.ts";

/** The identity provider of the tests, over real HTTP on loopback. */
export interface OidcServer {
  issuer: string;
  provider: OidcIssuer;
  /** Redirects it accepts; add to it when the control plane's address is known. */
  redirects: string[];
  close(): void;
}

export async function oidcServer(): Promise<OidcServer> {
  const redirects: string[] = [];
  const server = createServer(async (incoming, outgoing) => {
    const chunks: Buffer[] = [];
    for await (const chunk of incoming) chunks.push(chunk);
    const headers = new Headers(incoming.headers as Record<string, string>);
    const body = incoming.method === "GET" ? {} : { body: Buffer.concat(chunks) };
    const answer = await provider.fetch(
      new Request(issuer + incoming.url, { method: incoming.method ?? "GET", headers, ...body }),
    );
    outgoing.writeHead(answer.status, Object.fromEntries(answer.headers)).end(await answer.text());
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const provider = await oidcIssuer(issuer, redirects);
  return { issuer, provider, redirects, close: () => server.close() };
}

/** What makes a control plane use it. */
export const oidcEnvironment = ({ issuer, provider }: OidcServer): NodeJS.ProcessEnv => ({
  EVERDICT_OIDC_ISSUER: issuer,
  EVERDICT_OIDC_CLIENT_ID: provider.clientId,
  EVERDICT_OIDC_CLIENT_SECRET: provider.clientSecret,
});
