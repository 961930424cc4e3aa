import { Button } from "../../ui/button.tsx";
import { Panel } from "../../ui/layout.tsx";
import { Chip } from "../../ui/status.tsx";

/** The versions of one thing: which is shown, which it is compared with. */
export function Versions({
  versions,
  shown,
  show,
  compare,
  archive,
}: {
  versions: readonly string[];
  shown: string;
  show: (version: string) => void;
  compare?: ((version: string) => void) | undefined;
  archive?: ((version: string) => void) | undefined;
}) {
  return (
    <Panel title="Versions" flush>
      <ul>
        {versions.map((version) => (
          <li key={version} className="flex items-center gap-2 border-b border-line px-3 py-1.5 last:border-0">
            <button
              type="button"
              aria-pressed={version === shown}
              onClick={() => show(version)}
              className="rounded font-mono hover:underline"
            >
              {version}
            </button>
            {version === shown ? (
              <Chip tone="accent">shown</Chip>
            ) : (
              compare && (
                <Button small kind="quiet" onClick={() => compare(version)}>
                  Compare
                </Button>
              )
            )}
            {archive && (
              <Button small kind="quiet" className="ml-auto" onClick={() => archive(version)}>
                Archive
              </Button>
            )}
          </li>
        ))}
      </ul>
    </Panel>
  );
}
