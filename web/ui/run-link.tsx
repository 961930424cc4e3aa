import { useNavigate, useSearch } from "@tanstack/react-router";
import { createContext, type MouseEvent, type ReactNode, useCallback, useContext, useMemo } from "react";

interface Links {
  suffix: string;
  go: (id: string) => void;
}

const Context = createContext<Links | null>(null);

/** Around a long table: what its links share is worked out once, not once a row. */
export function RunLinks({ children }: { children: ReactNode }) {
  const { workspace } = useSearch({ strict: false }) as { workspace?: string };
  const navigate = useNavigate();
  const go = useCallback((id: string) => void navigate({ to: "/runs/$id", params: { id } }), [navigate]);
  const links = useMemo(
    () => ({ suffix: workspace === undefined ? "" : `?workspace=${encodeURIComponent(workspace)}`, go }),
    [workspace, go],
  );
  return <Context value={links}>{children}</Context>;
}

/** A link to a run that costs next to nothing: a real address, so that it opens in a new tab as any other. */
export function RunLink({
  id,
  title,
  className,
  children,
}: {
  id: string;
  title?: string;
  className?: string;
  children: ReactNode;
}) {
  const links = useContext(Context);
  if (!links) throw new Error("RunLink needs RunLinks above it");
  const onClick = (event: MouseEvent) => {
    if (event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    links.go(id);
  };
  return (
    <a href={`/dashboard/runs/${id}${links.suffix}`} title={title} onClick={onClick} className={className}>
      {children}
    </a>
  );
}
