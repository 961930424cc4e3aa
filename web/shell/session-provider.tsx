import { useQuery } from "@tanstack/react-query";
import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ReactNode, useEffect, useMemo, useRef } from "react";
import { clientFor } from "../api/client.ts";
import { isCode, troubleOf } from "../api/errors.ts";
import { SessionContext } from "../api/session.ts";
import { recall, remember } from "../api/stored.ts";
import { ErrorState, Skeleton } from "../ui/states.tsx";
import { ClosedWorkspace } from "./closed-workspace.tsx";
import { NoWorkspace } from "./no-workspace.tsx";

/**
 * Who is signed in and in which workspace they act. The workspace stands in the URL as soon as there is a choice, so that
 * a link means the same to everybody; else it is the one used last, or the only one.
 */
export function SessionProvider({ children }: { children: ReactNode }) {
  const search = useSearch({ strict: false }) as { workspace?: string };
  const navigate = useNavigate();
  const remembered = useRef(recall("workspace"));
  const named = search.workspace ?? remembered.current ?? undefined;
  const me = useQuery({
    queryKey: ["me", named ?? ""],
    queryFn: ({ signal }) => clientFor(named).call("get_me", { signal }),
    staleTime: 60_000,
  });
  const go = (workspace: string) =>
    void navigate({ to: ".", search: (old: object) => ({ ...old, workspace }), replace: true } as never);

  const lostMemory =
    isCode(me.error, "FORBIDDEN", "NOT_FOUND") && search.workspace === undefined && named !== undefined;
  const workspace = me.data?.workspace ?? null;
  const choices = me.data?.workspaces ?? [];
  const first = choices[0]?.id;
  useEffect(() => {
    if (lostMemory) {
      // It was remembered, and is no longer ours.
      remember("workspace", null);
      remembered.current = null;
      void me.refetch();
    }
  });
  const stranger = isCode(me.error, "UNAUTHENTICATED");
  useEffect(() => {
    if (!stranger) return;
    const to = window.location.pathname + window.location.search;
    void navigate({ to: "/sign-in", search: { to }, replace: true });
  }, [stranger, navigate]);
  const missing = me.isSuccess && workspace === null && first !== undefined;
  const unnamed = workspace !== null && choices.length > 1 && search.workspace === undefined;
  useEffect(() => {
    if (missing && first !== undefined) go(first);
    else if (unnamed && workspace !== null) go(workspace);
    if (workspace !== null) remember("workspace", workspace);
  });

  const session = useMemo(
    () => (me.data && workspace !== null ? { me: me.data, workspace, client: clientFor(workspace) } : null),
    [me.data, workspace],
  );
  if (session) return <SessionContext value={session}>{children}</SessionContext>;
  if (me.error !== null && !lostMemory && !stranger) {
    if (search.workspace !== undefined && !troubleOf(me.error).transient)
      return <ClosedWorkspace workspace={search.workspace} error={me.error} />;
    return (
      <div className="mx-auto max-w-lg p-6">
        <ErrorState error={me.error} retry={() => void me.refetch()} />
      </div>
    );
  }
  if (me.data && first === undefined) return <NoWorkspace me={me.data} />;
  return (
    <div className="flex h-full" aria-busy="true">
      <div className="w-56 border-r border-line bg-side max-md:hidden" />
      <div className="flex-1 p-6">
        <Skeleton className="h-5 w-40" />
        <span className="sr-only">Loading</span>
      </div>
    </div>
  );
}
