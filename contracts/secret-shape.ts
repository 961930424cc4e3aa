import type { Issue } from "./errors.ts";

/*
 * Values that look like credentials. They have no place in a spec or in a harness's environment: specs are immutable and
 * readable by every member. Datasets are not checked: they may carry such text as test material.
 */
const SHAPES: { what: string; pattern: RegExp }[] = [
  { what: "a JSON Web Token", pattern: /\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*/ },
  { what: "a PEM block", pattern: /-----BEGIN [A-Z0-9 ]{1,40}-----/ },
  { what: "a URL with a user name or password", pattern: /\b[a-z][a-z0-9+.-]{1,20}:\/\/[^\s/?#@]{1,300}@/i },
  { what: "an AWS access key", pattern: /\b(?:AKIA|ASIA)[0-9A-Z]{16}\b/ },
  { what: "a GitHub token", pattern: /\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_[A-Za-z0-9_]{40,}/ },
  { what: "an API key", pattern: /\bsk-[A-Za-z0-9_-]{20,}|\bxox[abprs]-[A-Za-z0-9-]{10,}/ },
  { what: "an Everdict token", pattern: /\bak_[A-Za-z0-9]{20,}|\b(?:rnr|rly)_[A-Za-z0-9-]{1,80}\.[A-Za-z0-9_-]{20,}/ },
];

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const SECRET_NAME_FIELDS = new Set(["authSecret", "kubeconfigSecret", "imagePullSecret", "secretRef"]);

/** What kind of credential a text looks like, or null. */
export function secretShape(text: string): string | null {
  for (const { what, pattern } of SHAPES) if (pattern.test(text)) return what;
  return null;
}

const IN_ENV = 'store it with PUT /secrets/{name} and refer to it by name ({"secretRef": "NAME"} in env)';

/**
 * Every string in `value` that looks like a credential, as issues that say where it belongs.
 * @param path dotted path of `value` in the request
 * @param advice what to do where no name of a secret is expected; default: the way of a harness, by its env
 */
export function secretIssues(value: unknown, path: string, advice = IN_ENV): Issue[] {
  if (typeof value === "string") {
    const field = path.slice(path.lastIndexOf(".") + 1);
    const what = SECRET_NAME_FIELDS.has(field) && UUID.test(value) ? "a token itself (a UUID)" : secretShape(value);
    if (what === null) return [];
    return [
      {
        path,
        message: SECRET_NAME_FIELDS.has(field)
          ? `looks like ${what}; store it with PUT /secrets/{name} and give its name here`
          : `looks like ${what}; ${advice}`,
      },
    ];
  }
  if (Array.isArray(value)) return value.flatMap((item, index) => secretIssues(item, `${path}.${index}`, advice));
  if (value !== null && typeof value === "object") {
    return Object.entries(value).flatMap(([key, item]) => secretIssues(item, path ? `${path}.${key}` : key, advice));
  }
  return [];
}
