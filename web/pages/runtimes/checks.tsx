import { CircleCheck, CircleX } from "lucide-react";
import type { Output } from "../../api/queries.ts";
import { CopyButton } from "../../ui/copy.tsx";
import { Chip, type Tone } from "../../ui/status.tsx";

type Probe = Output<"probe_runtime">;
type Validation = Output<"validate_runtime">;

const REASONS: Record<string, string> = {
  "ip-address": "its address is a bare IP",
  "private-name": "its name is private",
  "private-address": "its address is private",
  loopback: "it is the control plane's own machine",
  "link-local": "its address is link-local",
  "metadata-service": "its address is a cloud's metadata service",
  kubeconfig: "its kubeconfig is read on a relay",
  "private-ca": "its certificate is signed by a private authority",
  "client-certificate": "it wants a client certificate",
  "exec-plugin": "its credential comes from a command",
  proxy: "it is reached through a proxy",
  context: "the credential stays on the relay's machine",
};

const VERDICT: Record<string, { tone: Tone; word: string }> = {
  direct: { tone: "ok", word: "The edge dials it itself" },
  relay: { tone: "warn", word: "Needs a relay" },
  blocked: { tone: "bad", word: "Cannot be reached" },
};

/** What a cluster answered, check by check, each failure with its fix. */
export function ProbeResult({ probe }: { probe: Probe }) {
  return (
    <div className="flex flex-col gap-2">
      <p>{probe.detail}</p>
      <ul className="flex flex-col gap-1.5">
        {probe.checks.map(({ name, ok, detail, fix }) => (
          <li key={name} className="flex gap-2">
            {ok ? (
              <CircleCheck aria-hidden className="mt-0.5 size-4 shrink-0 text-ok" />
            ) : (
              <CircleX aria-hidden className="mt-0.5 size-4 shrink-0 text-bad" />
            )}
            <span className="min-w-0">
              <span className="font-medium">{name}</span>
              <span className="sr-only">{ok ? " passed" : " failed"}</span>
              <span className="text-muted"> {detail}</span>
              {fix !== null && <span className="block break-words text-warn">{fix}</span>}
            </span>
          </li>
        ))}
      </ul>
      {probe.policy !== undefined && (
        <details>
          <summary className="cursor-pointer text-muted">Least-privilege policy to paste</summary>
          <div className="relative mt-1">
            <pre tabIndex={0} className="max-h-64 overflow-auto rounded border border-line bg-sunken p-2 text-xs">
              {probe.policy}
            </pre>
            <CopyButton text={probe.policy} label="Copy the policy" className="absolute top-1 right-1" />
          </div>
        </details>
      )}
    </div>
  );
}

export function ValidationResult({ validation }: { validation: Validation }) {
  const { errors, warnings, missingSecrets, reachability } = validation;
  const verdict = VERDICT[reachability.verdict];
  return (
    <div className="flex flex-col gap-2">
      <p className="flex flex-wrap items-center gap-2">
        <Chip tone={verdict?.tone ?? "idle"}>{verdict?.word ?? reachability.verdict}</Chip>
        <span className="text-muted">{reachability.reasons.map((reason) => REASONS[reason] ?? reason).join("; ")}</span>
      </p>
      {reachability.command !== null && (
        <div className="flex items-start gap-1 rounded-md border border-line bg-sunken p-2">
          <code className="min-w-0 flex-1 text-xs break-all">{reachability.command}</code>
          <CopyButton text={reachability.command} label="Copy the command" />
        </div>
      )}
      {errors.length > 0 && (
        <ul className="flex flex-col gap-1">
          {errors.map(({ path, message }) => (
            <li key={`${path} ${message}`} className="text-bad">
              <code>{path || "spec"}</code> {message}
            </li>
          ))}
        </ul>
      )}
      {missingSecrets.map((name) => (
        <p key={name} className="text-warn">
          <code>{name}</code> is not stored yet; jobs wait until it is.
        </p>
      ))}
      {warnings.map((warning) => (
        <p key={warning} className="text-warn">
          {warning}
        </p>
      ))}
      {errors.length === 0 && missingSecrets.length + warnings.length === 0 && <p>Nothing to change.</p>}
    </div>
  );
}
