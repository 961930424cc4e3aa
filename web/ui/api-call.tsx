import { Code } from "lucide-react";
import { type CallInput, operationUrl } from "../../contracts/client.ts";
import { OPERATIONS, type OperationName } from "../../contracts/operations/index.ts";
import type { Operation } from "../../contracts/operations/operation.ts";
import { useSession } from "../api/session.ts";
import { usePageActions } from "../shell/actions.ts";
import { IconButton } from "./button.tsx";
import { notify } from "./notify.ts";

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** The exact call behind a page, for a terminal; the key stands in the environment, never in the line. */
export function curlOf<K extends OperationName>(
  origin: string,
  workspace: string,
  name: K,
  input: CallInput<K>,
): string {
  // SAFETY: the table's entries are Operations; only their schemas' types differ.
  const operation = OPERATIONS[name] as unknown as Operation;
  const url = operationUrl(origin, operation, input.params as never, input.query as never);
  return [
    `curl -s ${quoted(url)}`,
    ...(operation.method === "GET" ? [] : [`-X ${operation.method}`]),
    `-H "Authorization: Bearer $EVERDICT_API_KEY"`,
    `-H ${quoted(`X-Everdict-Workspace: ${workspace}`)}`,
    ...(input.body === undefined
      ? []
      : ["-H 'content-type: application/json'", `-d ${quoted(JSON.stringify(input.body))}`]),
  ].join(" \\\n  ");
}

/** "Open in API": copies the call that this page reads. */
export function ApiCall<K extends OperationName>({ name, input }: { name: K; input: CallInput<K> }) {
  const { workspace } = useSession();
  const copy = () =>
    void navigator.clipboard
      .writeText(curlOf(window.location.origin, workspace, name, input))
      .then(() => notify("Copied as curl", { detail: `${name}, also a tool of /mcp; set EVERDICT_API_KEY first.` }));
  usePageActions([{ id: "api", label: "Copy the API call of this page", run: copy }]);
  return (
    <IconButton label="Copy the API call of this page" onClick={copy} className="!size-7 max-sm:!hidden">
      <Code aria-hidden className="size-4" />
    </IconButton>
  );
}
