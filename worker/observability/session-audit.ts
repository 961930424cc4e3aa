import { eq } from "drizzle-orm";
import { iso, randomIds, type Store } from "../context.ts";
import { audit, members } from "../store/schema.ts";

/** Workspaces of one person whose trails tell of a sign-in. */
const MAX_WORKSPACES = 100;

interface SessionEvent {
  store: Store;
  requestId: string;
  now(): number;
}

/** Who signs in or out; a person without a chosen workspace does so in each that they are a member of. */
export interface Signed {
  subject: string;
  /** "" : none chosen. */
  workspace: string;
  method: "api-key" | "oidc";
}

/** Puts a sign-in or sign-out into the audit trail of each workspace that it lets into. */
export async function auditSession(
  { store, requestId, now }: SessionEvent,
  action: "session.start" | "session.end",
  { subject, workspace, method }: Signed,
): Promise<void> {
  const workspaces =
    workspace === ""
      ? (
          await store
            .select({ workspace: members.workspace })
            .from(members)
            .where(eq(members.subject, subject))
            .limit(MAX_WORKSPACES)
            .all()
        ).map((row) => row.workspace)
      : [workspace];
  const newId = randomIds(now);
  const [first, ...more] = workspaces.map((name) =>
    store.insert(audit).values({
      id: newId("aud"),
      workspace: name,
      at: iso(now()),
      actor: subject,
      action,
      target: null,
      requestId,
      detail: { method },
    }),
  );
  if (first) await store.batch([first, ...more]);
}
