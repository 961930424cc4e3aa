import { useRouterState } from "@tanstack/react-router";
import { useEffect, useRef, useState } from "react";

/** After a change of page its title is read out and its heading takes the focus, as a page load would do. */
export function RouteAnnouncer() {
  const path = useRouterState({ select: (state) => state.resolvedLocation?.pathname });
  const [said, setSaid] = useState("");
  const first = useRef(true);
  useEffect(() => {
    if (path === undefined) return;
    if (first.current) {
      first.current = false;
      return;
    }
    // The new page has rendered its heading by the next frame.
    const frame = requestAnimationFrame(() => {
      const heading = document.getElementById("page-title");
      heading?.focus({ preventScroll: true });
      document.getElementById("main")?.scrollTo(0, 0);
      setSaid(document.title);
    });
    return () => cancelAnimationFrame(frame);
  }, [path]);
  return (
    <div aria-live="polite" role="status" className="sr-only">
      {said}
    </div>
  );
}
