import { useMemo } from "react";
import { useAll, useRead } from "../../api/queries.ts";
import { editRuntimeRoute, newRuntimeRoute } from "../../routes/compute.tsx";
import { Needs } from "../../shell/needs.tsx";
import { Page } from "../../ui/layout.tsx";
import { ErrorState, Skeleton } from "../../ui/states.tsx";
import { nextVersion } from "./diff.ts";
import { type Draft, emptyDraft } from "./fields.ts";
import { RuntimeForm } from "./runtime-form.tsx";

const CRUMBS = [{ label: "Runtimes", to: "/runtimes" }];

export function NewRuntimePage() {
  const { kind = "k8s" } = newRuntimeRoute.useSearch();
  const start = useMemo(() => emptyDraft(kind), [kind]);
  return (
    <Needs op="create_runtime" what="Registering a runtime" title="Register a runtime" crumbs={CRUMBS}>
      <Page title="Register a runtime" crumbs={CRUMBS}>
        <RuntimeForm start={start} before={null} choosesKind />
      </Page>
    </Needs>
  );
}

export function EditRuntimePage() {
  const { id } = editRuntimeRoute.useParams();
  const { version = "latest" } = editRuntimeRoute.useSearch();
  const title = `Edit ${id}`;
  const crumbs = [...CRUMBS, { label: id, to: `/runtimes/${id}` }];
  return (
    <Needs op="create_runtime" what="Editing a runtime" title={title} crumbs={crumbs}>
      <Page title={title} crumbs={crumbs}>
        <NextVersion id={id} version={version} />
      </Page>
    </Needs>
  );
}

function NextVersion({ id, version }: { id: string; version: string }) {
  const entry = useRead("get_runtime", { params: { id, version } }, { staleTime: Number.POSITIVE_INFINITY });
  const runtimes = useAll("list_runtimes", { query: { archived: "true" } });
  const known = runtimes.data?.find((item) => item.id === id)?.versions;
  const before = entry.data?.spec as Draft | undefined;
  const start = useMemo(
    () => (before && known ? { ...before, version: nextVersion(known) } : undefined),
    [before, known],
  );
  if (entry.error) return <ErrorState error={entry.error} retry={() => void entry.refetch()} />;
  return before && start ? (
    <RuntimeForm start={start} before={before} choosesKind={false} />
  ) : (
    <Skeleton className="h-96 w-full" />
  );
}
