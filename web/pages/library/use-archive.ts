import { useWrite } from "../../api/queries.ts";
import { notify } from "../../ui/notify.ts";

const REFRESHES = {
  runtime: ["list_runtimes", "get_runtime"],
  harness: ["list_harnesses", "get_harness"],
  dataset: ["list_datasets"],
} as const;

/** The version of a page: that of its address, else the latest; of what is archived as a whole the newest, to bring it back. */
export const versionShown = (
  chosen: string | undefined,
  item: { latest: string | null; versions: readonly string[] } | undefined,
): string => chosen ?? (item?.latest === null ? item.versions.at(-1) : undefined) ?? "latest";

export interface Archiving {
  /** Of one version, or of all of them; where it is refused, whoever asked shows it. */
  archive(version?: string): Promise<void>;
  restore(version?: string): void;
}

/** Archiving of a registered thing, and the way back, which the toast offers too. */
export function useArchive(kind: keyof typeof REFRESHES, id: string): Archiving {
  const options = { refreshes: REFRESHES[kind] };
  const away = useWrite(`archive_${kind}`, { ...options, quiet: true });
  const back = useWrite(`archive_${kind}`, options);
  const input = (version: string | undefined, archived: boolean) => ({
    params: { id },
    body: version === undefined ? { archived } : { version, archived },
  });
  const restore = (version?: string): void =>
    back.mutate(input(version, false), {
      onSuccess: () => notify(version === undefined ? `${id} is back` : `${id}@${version} is back`),
    });
  return {
    restore,
    archive: async (version) => {
      await away.mutateAsync(input(version, true));
      notify(version === undefined ? `${id} is archived` : `${id}@${version} is archived`, {
        undo: () => restore(version),
      });
    },
  };
}
