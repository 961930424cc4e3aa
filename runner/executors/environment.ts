/** Variables of the machine that a job on the host may see: enough for its logins and tools, nothing of ours. */
const KEPT = new Set([
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "SHELL",
  "LANG",
  "LANGUAGE",
  "TZ",
  "TMPDIR",
  "SSH_AUTH_SOCK",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "NO_PROXY",
  "http_proxy",
  "https_proxy",
  "no_proxy",
  "SSL_CERT_FILE",
  "SSL_CERT_DIR",
  "NODE_EXTRA_CA_CERTS",
  "DISPLAY",
  "WAYLAND_DISPLAY",
  "DBUS_SESSION_BUS_ADDRESS",
]);
const KEPT_PREFIXES = ["LC_", "XDG_"];

/** The clean environment of a job on the host. Tokens of this CLI (EVERDICT_*) never pass. */
export function hostEnvironment(own: NodeJS.ProcessEnv): Record<string, string> {
  const clean: Record<string, string> = {};
  for (const [name, value] of Object.entries(own)) {
    if (value === undefined) continue;
    if (KEPT.has(name) || KEPT_PREFIXES.some((prefix) => name.startsWith(prefix))) clean[name] = value;
  }
  clean.PATH ??= "/usr/local/bin:/usr/bin:/bin";
  return clean;
}
