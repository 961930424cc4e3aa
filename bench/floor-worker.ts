import { DurableObject } from "cloudflare:workers";

/* What any queue on this runtime must do, and nothing else: nothing is checked, decided or graded. */

interface Env {
  ANSWER: string;
  DB: D1Database;
  PLACE: DurableObjectNamespace<Place>;
}

/** One object that holds polls and hands each of them the next thing that was written down. */
export class Place extends DurableObject<Env> {
  readonly #polls: ((id: string) => void)[] = [];

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    ctx.storage.sql.exec("CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY)");
  }

  poll(): Promise<string> {
    return new Promise((resolve) => this.#polls.push(resolve));
  }

  put(id: string): void {
    this.ctx.storage.sql.exec("INSERT INTO runs VALUES (?)", id);
    this.#polls.shift()?.(id);
  }
}

export default {
  async fetch(request: Request, env: Env): Promise<Response> {
    const { pathname } = new URL(request.url);
    const place = env.PLACE.getByName("place");
    if (pathname === "/poll") return new Response(await place.poll());
    if (pathname === "/schema") {
      await env.DB.exec("CREATE TABLE IF NOT EXISTS runs (id TEXT PRIMARY KEY, body TEXT)");
      return new Response(null);
    }
    const body = await request.json<{ id: string }>();
    if (pathname === "/heartbeat") return Response.json(body);
    if (pathname === "/results") return new Response(env.ANSWER, { headers: { "content-type": "application/json" } });
    await env.DB.prepare("INSERT INTO runs VALUES (?, ?)").bind(body.id, JSON.stringify(body)).run();
    await place.put(body.id);
    return Response.json({ id: body.id });
  },
} satisfies ExportedHandler<Env>;
