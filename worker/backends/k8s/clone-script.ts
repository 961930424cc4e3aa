/** Where the clone container finds url, ref and credential, each a file, so that no cluster expands their text. */
export const CLONE_DIR = "/everdict/clone";

/**
 * Fetches the wanted commit to $EVD_DIR/source, shallow where the server allows it, and leaves no credential behind. The
 * clone is open to all: whoever the job's image runs as must be able to change it, and with all capabilities dropped not
 * even root may write to another user's files.
 */
export const CLONE_SCRIPT = `#!/bin/sh
set -u
cd "$EVD_DIR" || exit 1
url=$(cat ${CLONE_DIR}/url) ref=$(cat ${CLONE_DIR}/ref)
case $ref in -*) echo "a ref cannot start with '-'" >&2; exit 1 ;; esac
export HOME=/tmp GIT_TERMINAL_PROMPT=0 GIT_ALLOW_PROTOCOL=https:http:ssh:git
if [ -s ${CLONE_DIR}/credential ]; then
  printf '%s\\n' '#!/bin/sh' 'c=$(cat ${CLONE_DIR}/credential)' 'case $c in ?*:*) u=\${c%%:*} p=\${c#*:} ;; *) u=x-access-token p=$c ;; esac' \\
    'case $1 in Username*) printf "%s\\n" "$u" ;; *) printf "%s\\n" "$p" ;; esac' >/tmp/askpass || exit 1
  chmod 700 /tmp/askpass
  export GIT_ASKPASS=/tmp/askpass
fi
g() { git -c credential.helper= -c safe.directory='*' "$@"; }
rm -rf source
g init -q -- source && cd source && g remote add origin "$url" || exit 1
if g fetch -q --depth 1 -- origin "$ref" 2>/tmp/words; then
  g checkout -q --detach FETCH_HEAD || exit 1
else
  g fetch -q --tags -- origin '+refs/heads/*:refs/remotes/origin/*' && g checkout -q --detach "$ref" || { cat /tmp/words >&2; exit 1; }
fi
chmod -R a+rwX .
`;
