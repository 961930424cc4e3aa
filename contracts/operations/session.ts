import * as z from "zod";
import { WorkspaceId } from "../names.ts";
import { Role, Scope } from "../roles.ts";
import { Timestamp } from "../run.ts";
import { operation } from "./operation.ts";
import { NoParams, NoQuery } from "./shapes.ts";

const BROWSER_ONLY = "a browser's session is a cookie; tools send a key or token with each call";

export const SessionMethod = z
  .enum(["api-key", "oidc", "dev"])
  .describe("api-key: by pasting one; oidc: at the identity provider; dev: nothing is asked, on this machine only");
export type SessionMethod = z.infer<typeof SessionMethod>;

export const Session = z
  .strictObject({
    session: z
      .strictObject({
        method: SessionMethod,
        subject: z.string(),
        personal: z.boolean().describe("Acts as a person, not as the workspace"),
        workspace: WorkspaceId.nullable().describe(
          "The one it is bound to; null: each request names it by X-Everdict-Workspace",
        ),
        role: Role.nullable().describe("In that workspace; null when it is bound to none"),
        scope: Scope,
        operator: z.boolean(),
        expiresAt: Timestamp.nullable().describe("null: it does not end"),
      })
      .nullable()
      .describe("null: nobody is signed in"),
    ended: z
      .string()
      .nullable()
      .describe("Why the session that came with the request is none any more; null when there was none or it is good"),
    methods: z.array(SessionMethod).describe("Ways to sign in here"),
    issuer: z.string().nullable().describe("Identity provider of the method oidc"),
  })
  .describe("Who is signed in, and how one can sign in");
export type Session = z.infer<typeof Session>;

/** A path of this origin: no host, no scheme, nothing a browser would read as one. */
export const ReturnTo = z
  .string()
  .min(1)
  .max(2_000)
  .regex(
    /^\/(?![/\\])[\x21-\x5b\x5d-\x7e]*$/,
    "must be a path of this site: '/' first, then neither '/' nor a backslash",
  )
  .describe("Where to go after signing in; a path of this site");

const providerText = (max: number, words: string) => z.string().max(max).optional().describe(words);

export const SESSION_OPERATIONS = {
  get_session: operation({
    name: "get_session",
    method: "GET",
    path: "/session",
    group: "session",
    summary: "Who is signed in, and how one can sign in",
    audience: "public",
    action: "me:read",
    params: NoParams,
    query: NoQuery,
    status: 200,
    output: Session,
    sensitive: true,
    noTool: BROWSER_ONLY,
  }),
  create_session: operation({
    name: "create_session",
    method: "POST",
    path: "/session",
    group: "session",
    summary: "Sign in with an API key",
    description:
      "Sets a cookie that acts as exactly this key, and ends with it. It is HttpOnly and never shows the key. " +
      "With a cookie, every request but GET must come from a page of this site, as application/json.",
    audience: "public",
    action: "me:read",
    params: NoParams,
    query: NoQuery,
    body: z.strictObject({
      apiKey: z
        .string()
        .max(100)
        .regex(/^ak_[A-Za-z0-9_-]{43}$/, "must be an API key: ak_…")
        .describe("An API key; it is not kept"),
    }),
    status: 201,
    output: Session,
    sensitive: true,
    maxBodyBytes: 4 * 1024,
    noTool: BROWSER_ONLY,
  }),
  end_session: operation({
    name: "end_session",
    method: "DELETE",
    path: "/session",
    group: "session",
    summary: "Sign out",
    description: "The cookie is worth nothing from then on, wherever a copy of it may be.",
    audience: "public",
    action: "me:read",
    params: NoParams,
    query: NoQuery,
    status: 204,
    sensitive: true,
    noTool: BROWSER_ONLY,
  }),
  start_oidc_session: operation({
    name: "start_oidc_session",
    method: "GET",
    path: "/session/oidc/start",
    group: "session",
    summary: "Go to the identity provider to sign in (authorization code with PKCE)",
    audience: "public",
    action: "me:read",
    params: NoParams,
    query: z.strictObject({ returnTo: ReturnTo.optional() }),
    status: 302,
    sensitive: true,
    noTool: BROWSER_ONLY,
  }),
  finish_oidc_session: operation({
    name: "finish_oidc_session",
    method: "GET",
    path: "/session/oidc/callback",
    group: "session",
    summary: "Where the identity provider sends the browser back to",
    audience: "public",
    action: "me:read",
    params: NoParams,
    // A provider may send what it likes besides; it is checked by what stands in the specifications.
    query: z.strictObject({
      code: providerText(4_000, "Authorization code, good once"),
      state: providerText(500, "Must be the one this browser was sent away with"),
      iss: providerText(500, "Address of the provider"),
      session_state: providerText(500, "The provider's own"),
      scope: providerText(2_000, "What was granted"),
      error: providerText(200, "The provider's error code"),
      error_description: providerText(2_000, "The provider's words"),
      error_uri: providerText(2_000, "Where the provider explains"),
    }),
    status: 302,
    sensitive: true,
    noTool: BROWSER_ONLY,
  }),
};
