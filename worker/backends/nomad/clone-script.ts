export interface CloneInput {
  /** Base64 of the address. */
  url: string;
  /** Base64 of the branch, tag or commit. */
  ref: string;
  target: string;
  /** File for git's own words when it fails. */
  words: string;
}

/**
 * POSIX sh script of the prestart task that clones a git source. The credential comes in EVD_GIT_CREDENTIAL as
 * "user:password" or a token alone, reaches git by its askpass program, and stands neither in an argument nor in the
 * clone. Only ways that move data over a network are allowed.
 */
export function cloneScript({ url, ref, target, words }: CloneInput): string {
  return `set -u
evd_url=$(printf %s '${url}' | base64 -d) evd_ref=$(printf %s '${ref}' | base64 -d)
export GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=https:http:ssh:git HOME=/tmp
evd_end() { tail -c 2000 "${words}" >&2; exit 1; }
case $evd_ref in -*) echo "a ref cannot start with '-'" >"${words}"; evd_end ;; esac
if [ -n "\${EVD_GIT_CREDENTIAL:-}" ]; then
  case $EVD_GIT_CREDENTIAL in
  ?*:*) export EVD_GIT_USERNAME="\${EVD_GIT_CREDENTIAL%%:*}" EVD_GIT_PASSWORD="\${EVD_GIT_CREDENTIAL#*:}" ;;
  *) export EVD_GIT_USERNAME=x-access-token EVD_GIT_PASSWORD="$EVD_GIT_CREDENTIAL" ;;
  esac
  unset EVD_GIT_CREDENTIAL
  printf '%s\\n' '#!/bin/sh' 'case $1 in Username*) printf "%s\\n" "$EVD_GIT_USERNAME" ;; *) printf "%s\\n" "$EVD_GIT_PASSWORD" ;; esac' >/tmp/askpass
  chmod 700 /tmp/askpass
  export GIT_ASKPASS=/tmp/askpass
fi
evd_git() { git -c credential.helper= -c safe.directory='*' "$@" 2>>"${words}"; }
evd_git init -q -- "${target}" || evd_end
cd "${target}" || evd_end
evd_git remote add -- origin "$evd_url" || evd_end
if evd_git fetch -q --depth 1 -- origin "$evd_ref"; then
  evd_git checkout -q --detach FETCH_HEAD || evd_end
else
  evd_git fetch -q --tags -- origin '+refs/heads/*:refs/remotes/origin/*' || evd_end
  evd_git checkout -q --detach "$evd_ref" || evd_end
fi
rm -f "${words}"
chmod -R a+rwX "${target}"
`;
}
