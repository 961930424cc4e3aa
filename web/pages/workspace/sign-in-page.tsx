import { useQuery, useQueryClient } from "@tanstack/react-query";
import { useState } from "react";
import { clientFor } from "../../api/client.ts";
import { signInRoute } from "../../routes/workspace.tsx";
import { Button, buttonClass } from "../../ui/button.tsx";
import { Field, Input } from "../../ui/field.tsx";
import { ErrorState, Skeleton } from "../../ui/states.tsx";

/** Where to go afterwards: a path of the dashboard, nothing else. */
const homeward = (to: string | undefined): string =>
  to !== undefined && /^\/dashboard(\/|\?|$)/.test(to) ? to : "/dashboard/";

/** Why one came back without being signed in. The words are ours: an address can be written by anybody. */
const FAILED = {
  UNAUTHENTICATED:
    "What came back from the identity provider does not belong to a sign-in that this browser began here, or it was begun too long ago, or the provider said no. Sign in again.",
  UNAVAILABLE: "The identity provider did not answer. Try again in a moment.",
  NOT_FOUND: "This deployment has no identity provider. Sign in with an API key.",
};
const DENIED = "The identity provider refused you access. Ask whoever runs it, or sign in with an API key.";

/** Signs in with an API key, or at the identity provider. The key is sent once and not kept in the browser. */
export function SignInPage() {
  const { to, error, provider } = signInRoute.useSearch();
  const queries = useQueryClient();
  const client = clientFor(undefined);
  const session = useQuery({ queryKey: ["session"], queryFn: ({ signal }) => client.call("get_session", { signal }) });
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState<unknown>(null);
  const [busy, setBusy] = useState(false);
  const target = homeward(to);
  const signIn = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await client.call("create_session", { body: { apiKey: key.trim() } });
      setKey("");
      queries.clear();
      window.location.assign(target);
    } catch (failure) {
      setProblem(failure);
      setBusy(false);
    }
  };
  const methods = session.data?.methods ?? [];
  return (
    <main className="mx-auto flex min-h-full max-w-sm flex-col justify-center gap-5 p-6">
      <h1 id="page-title" tabIndex={-1} className="text-xl font-semibold tracking-tight">
        Sign in to Everdict Edge
      </h1>
      {error !== undefined && (
        <p role="alert" className="rounded-md border border-line bg-bad-soft p-3">
          <span className="font-medium text-bad">Signing in did not work.</span>{" "}
          {provider === undefined ? FAILED[error] : DENIED}
        </p>
      )}
      {session.data?.ended && <p className="rounded-md bg-warn-soft p-3">{session.data.ended}</p>}
      {session.error !== null && <ErrorState error={session.error} retry={() => void session.refetch()} />}
      {session.isPending && <Skeleton className="h-40 w-full" />}
      {methods.includes("oidc") && (
        <a className={buttonClass("primary")} href={`/session/oidc/start?returnTo=${encodeURIComponent(target)}`}>
          Continue with {session.data?.issuer ? new URL(session.data.issuer).host : "your identity provider"}
        </a>
      )}
      {methods.includes("api-key") && (
        <form
          className="flex flex-col gap-3"
          onSubmit={(event) => {
            event.preventDefault();
            void signIn();
          }}
        >
          <Field
            label="API key"
            hint="ak_… of a workspace. You act as exactly this key, until you sign out or it is revoked."
          >
            {(control) => (
              <Input {...control} type="password" mono value={key} onChange={(event) => setKey(event.target.value)} />
            )}
          </Field>
          {problem !== null && <ErrorState error={problem} />}
          <Button
            kind={methods.includes("oidc") ? "normal" : "primary"}
            type="submit"
            busy={busy}
            disabledReason={key.trim() === "" ? "paste a key first" : undefined}
          >
            Sign in with the key
          </Button>
        </form>
      )}
      {methods.includes("dev") && (
        <p className="text-muted">
          This is a development server on your own machine:{" "}
          <a className="underline" href={target}>
            go on as its developer
          </a>
          .
        </p>
      )}
    </main>
  );
}
