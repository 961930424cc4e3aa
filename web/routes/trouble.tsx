import { Link } from "@tanstack/react-router";
import { buttonClass } from "../ui/button.tsx";
import { Page } from "../ui/layout.tsx";
import { Empty, ErrorState } from "../ui/states.tsx";

/** In the frame: whoever came by an old link can go on from there. */
export function NotFound() {
  return (
    <Page title="No such page">
      <Empty
        title="Nothing is at this address"
        action={
          <Link to={"/scorecards" as never} className={buttonClass()}>
            Go to scorecards
          </Link>
        }
      >
        The link may be old, or cut off where it was copied.
      </Empty>
    </Page>
  );
}

export function RouteError({ error, reset }: { error: unknown; reset: () => void }) {
  return (
    <div className="p-6">
      <ErrorState error={error} retry={reset} />
    </div>
  );
}
