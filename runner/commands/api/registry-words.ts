import type { Issue } from "../../../contracts/errors.ts";
import { VersionRef } from "../../../contracts/names.ts";
import { isInput, refOf } from "./session.ts";
import { plain } from "./text.ts";

/** What was registered, and what may surprise about it. */
export function registeredWords(registered: { id: string; version: string; warnings: string[] }): string {
  const lines = [`registered ${plain(registered.id)}@${plain(registered.version)}`];
  for (const warning of registered.warnings) lines.push(`  warning: ${plain(warning)}`);
  return `${lines.join("\n")}\n`;
}

/** What every registry's validation says. */
export interface ValidationLike {
  ok: boolean;
  errors: Issue[];
  warnings: string[];
  versionExists: boolean;
  missingSecrets: string[];
}

export function validationWords(validation: ValidationLike): string {
  const lines = [validation.ok ? "valid" : "not valid"];
  for (const issue of validation.errors) lines.push(`  ${plain(issue.path)}: ${plain(issue.message)}`);
  for (const warning of validation.warnings) lines.push(`  warning: ${plain(warning)}`);
  if (validation.versionExists) lines.push("  this version is registered already; versions are immutable");
  for (const name of validation.missingSecrets) lines.push(`  secret ${plain(name)} is not stored yet`);
  return `${lines.join("\n")}\n`;
}

/** "echo@1.0.0" as path parameters; without a version the latest. @throws EverdictError BAD_REQUEST */
export function splitRef(text: string): { id: string; version: string } {
  const { id, version } = refOf(text);
  return isInput(VersionRef, version, `the version of '${plain(text)}'`) ? { id, version } : { id, version: "latest" };
}
