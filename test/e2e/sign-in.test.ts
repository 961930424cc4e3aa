import { afterAll, beforeAll, expect, test } from "vitest";
import { ControlPlane } from "../support/control-plane.ts";
import { type OidcServer, oidcEnvironment, oidcServer } from "../support/oidc-server.ts";

let plane: ControlPlane;
let oidc: OidcServer;

beforeAll(async () => {
  oidc = await oidcServer();
  plane = await ControlPlane.start(oidcEnvironment(oidc));
  oidc.redirects.push(`${plane.url}/session/oidc/callback`);
});
afterAll(async () => {
  await plane?.stop();
  oidc?.close();
});

/** What a browser does with cookies and redirects of one origin, as far as it matters here. */
class Browser {
  readonly jar = new Map<string, string>();

  async go(url: string, init: RequestInit = {}): Promise<Response> {
    const own = url.startsWith(plane.url);
    const cookie = [...this.jar].map(([name, value]) => `${name}=${value}`).join("; ");
    const headers = { ...(own && cookie !== "" ? { cookie } : {}), ...(init.headers as Record<string, string>) };
    const response = await fetch(url, { ...init, headers, redirect: "manual" });
    for (const line of own ? response.headers.getSetCookie() : []) {
      const [name = "", value = ""] = (line.split(";")[0] ?? "").split("=");
      if (line.includes("Max-Age=0")) this.jar.delete(name);
      else this.jar.set(name, value);
    }
    return response;
  }
}

test("a person signs in over the real provider, follows a run by cookie, and signs out", async () => {
  const admin = plane.client("default");
  await admin.call("set_member", { params: { subject: "ada" }, body: { role: "member" } });
  const browser = new Browser();
  const start = await browser.go(`${plane.url}/session/oidc/start?returnTo=/docs/`);
  expect(start.status).toBe(302);
  const provided = await browser.go(start.headers.get("location") ?? "");
  expect(provided.status).toBe(302);
  const back = await browser.go(provided.headers.get("location") ?? "");
  expect([back.status, back.headers.get("location")]).toEqual([302, "/docs/"]);
  expect([...browser.jar.keys()]).toEqual([expect.stringMatching(/^everdict-session-/)]);

  const me = await browser.go(`${plane.url}/me`, { headers: { "x-everdict-workspace": "default" } });
  expect(await me.json()).toMatchObject({ subject: "ada", role: "member", operator: false });

  const submit = {
    method: "POST",
    body: JSON.stringify({
      harness: { spec: { kind: "command", command: "echo signed in" } },
      case: { id: "c1", task: "-", graders: [{ kind: "exit-code" }], timeoutSec: 30 },
      runtime: "self:ws",
    }),
  };
  const headers = { "content-type": "application/json", "x-everdict-workspace": "default" };
  expect((await browser.go(`${plane.url}/runs`, { ...submit, headers })).status).toBe(403);
  const run = await browser.go(`${plane.url}/runs`, { ...submit, headers: { ...headers, origin: plane.url } });
  expect(run.status).toBe(202);
  const { id } = (await run.json()) as { id: string };
  const stream = await browser.go(`${plane.url}/runs/${id}/logs/stream?workspace=default`);
  expect(stream.headers.get("content-type")).toContain("text/event-stream");
  const reader = stream.body?.getReader();
  let text = "";
  while (!text.includes("event: run")) text += new TextDecoder().decode((await reader?.read())?.value);
  await reader?.cancel();

  const copy = [...browser.jar].map(([name, value]) => `${name}=${value}`).join("; ");
  const out = await browser.go(`${plane.url}/session`, { method: "DELETE", headers: { origin: plane.url } });
  expect(out.status).toBe(204);
  expect(browser.jar.size).toBe(0);
  const after = await fetch(`${plane.url}/me`, { headers: { cookie: copy, "x-everdict-workspace": "default" } });
  expect(after.status).toBe(401);
  for (const value of [
    copy.split("=")[1] ?? "",
    new URL(provided.headers.get("location") ?? "").searchParams.get("code"),
  ])
    expect(plane.output.includes(value ?? "")).toBe(false);
});
