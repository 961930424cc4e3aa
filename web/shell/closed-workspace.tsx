import { useEffect } from "react";
import { remember } from "../api/stored.ts";
import { Button } from "../ui/button.tsx";
import { ErrorState } from "../ui/states.tsx";
import { useSignOut } from "./sign-out.ts";

/** An address names a workspace that is not there, or not for whoever is signed in: the ways on from it. */
export function ClosedWorkspace({ workspace, error }: { workspace: string; error: unknown }) {
  const signOut = useSignOut();
  useEffect(() => {
    document.title = "Workspace not open to you · Everdict Edge";
  }, []);
  const home = () => {
    remember("workspace", null);
    // Ids of one workspace mean nothing in another, so that it begins at the scorecards.
    window.location.assign("/dashboard/scorecards");
  };
  return (
    <main className="mx-auto flex max-w-lg flex-col gap-4 p-8">
      <h1 id="page-title" tabIndex={-1} className="text-xl font-semibold">
        This workspace is not open to you
      </h1>
      <p className="text-muted">
        The address names the workspace <code className="break-all">{workspace}</code>. It may not exist, or whoever you
        are signed in as is not in it.
      </p>
      <ErrorState error={error} />
      <div className="flex flex-wrap gap-2">
        <Button kind="primary" onClick={home}>
          Go to my workspace
        </Button>
        {signOut && <Button onClick={() => void signOut()}>Sign out</Button>}
      </div>
    </main>
  );
}
