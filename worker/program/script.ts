import { OUTCOME_STREAM_BYTES, RESULT_MARK } from "../../contracts/job.ts";
import { COMPACT_RAW_BYTES, OUTCOME_RAW_BYTES } from "../../contracts/outcome.ts";

/*
 * The constant parts of the program, in POSIX sh. They hold no tenant byte. Names start with evd_ and are never
 * exported, so that the agent's environment is its own.
 */

/** Exit status of a program that could not work at all and has no Outcome. */
export const PROGRAM_FAILED = 97;
/** Seconds for one command grader, and for all of them together. */
export const GRADER_SEC = 60;
export const GRADERS_SEC = 300;
/** Exit status reported for a grader that was ended by its limit, as timeout(1) does. */
export const GRADER_TIMED_OUT = 124;
/** The pipes are given this long without progress when a process outside the group keeps them open. */
const IDLE_PIPE_SEC = 3;
const MAX_PIPE_SEC = 30;
/** Bytes of a grader's output that go to the log. */
const GRADER_LOG_BYTES = 4_096;
/** Room kept for each file that is still to be collected. */
const FOLLOWING_BYTES = 4_096;
/** Bytes of a git diff that are looked at. */
const DIFF_BYTES = 262_144;

/** Comments and indentation are for readers of this file: a program is stored and sent once per job. */
function compact(script: string): string {
  const lines = script.split("\n").map((line) => line.trimStart());
  return lines.filter((line) => line.startsWith("#!") || !line.startsWith("#")).join("\n");
}

export const PRELUDE = compact(`#!/bin/sh
evd_fail() { printf 'everdict: %s\\n' "$1" >&2; exit ${PROGRAM_FAILED}; }
[ -n "\${EVD_DIR:-}" ] || evd_fail "EVD_DIR is not set: the backend must name a writable directory"
evd_run=$EVD_DIR/run evd_root=$EVD_DIR/root
mkdir -p "$evd_run" "$evd_root" 2>/dev/null && ( : >"$evd_run/probe" ) 2>/dev/null ||
  evd_fail "EVD_DIR $EVD_DIR is not writable: the backend must mount a writable directory there"
evd_lacks=
for evd_tool in base64 cat head mkfifo mv rm sleep tail tee tr wc; do
  command -v "$evd_tool" >/dev/null 2>&1 || evd_lacks="$evd_lacks $evd_tool"
done
[ -z "$evd_lacks" ] || evd_fail "the image lacks$evd_lacks: use an image with these tools, busybox has them all"
evd_nonce=
if [ -n "\${EVD_NONCE_FILE:-}" ]; then
  evd_nonce=$(cat "$EVD_NONCE_FILE" 2>/dev/null)
  rm -f "$EVD_NONCE_FILE" 2>/dev/null
fi
[ -n "$evd_nonce" ] || evd_fail "EVD_NONCE_FILE names no readable file with a nonce"
export EVD_TASK_FILE="$EVD_DIR/task"
`);

/** Functions, and the agent's run. Expects evd_timeout, evd_grace and evd_work. */
export const RUN = compact(`
evd_ms() {
  if [ -r /proc/uptime ]; then
    read -r evd_up evd_idle </proc/uptime
    evd_c=\${evd_up#*.} evd_c=\${evd_c#0}
    evd_now=$(( \${evd_up%.*} * 1000 + \${evd_c:-0} * 10 ))
  else
    evd_now=$(( $(date +%s) * 1000 ))
  fi
}
evd_nap() { sleep "$1" & wait "$!"; }
evd_signal() { kill -"$1" -"$2" 2>/dev/null || kill -"$1" "$2" 2>/dev/null; }
# evd_watch SECONDS GRACE PID MARK: the watchdog of one process group
evd_watch() {
  (
    trap 'kill "$!" 2>/dev/null; exit 0' TERM
    evd_nap "$1"
    kill -0 "$3" 2>/dev/null || exit 0
    : >"$4"
    evd_signal TERM "$3"
    evd_nap "$2"
    evd_signal KILL "$3"
  ) >/dev/null 2>&1 &
}
# evd_session COMMAND…: starts it in a session of its own, so that there is a group to kill
evd_session() {
  if command -v setsid >/dev/null 2>&1; then exec setsid "$@"; fi
  exec "$@"
}
# evd_drained PID…: waits for readers of our pipes; a process that left the group may hold them open for ever
evd_drained() {
  (
    trap 'kill "$!" 2>/dev/null; exit 0' TERM
    evd_i=0 evd_idle=0 evd_last=
    while [ "$evd_i" -lt ${MAX_PIPE_SEC} ] && [ "$evd_idle" -lt ${IDLE_PIPE_SEC} ]; do
      evd_nap 1
      evd_size="$(wc -c <out) $(wc -c <err)"
      if [ "$evd_size" = "$evd_last" ]; then evd_idle=$((evd_idle + 1)); else evd_idle=0; fi
      evd_last=$evd_size evd_i=$((evd_i + 1))
    done
    kill -KILL "$@" 2>/dev/null
  ) >/dev/null 2>&1 &
  evd_guard=$!
  for evd_p in "$@"; do { wait "$evd_p"; } 2>/dev/null; done
  kill "$evd_guard" 2>/dev/null
  wait "$evd_guard" 2>/dev/null
}
# As process 1 of a container we may end whatever left the agent's group.
evd_purge() {
  [ $$ -eq 1 ] || return 0
  for evd_round in 1 2 3; do
    for evd_p in /proc/[0-9]*; do
      evd_p=\${evd_p#/proc/}
      case " 1 $* " in *" $evd_p "*) ;; *) kill -KILL "$evd_p" 2>/dev/null ;; esac
    done
  done
}
evd_ms
evd_start=$evd_now
cd "$evd_run" && mkfifo o e || evd_fail "cannot make a FIFO in $evd_run"
: >out; : >err
( trap '' PIPE; exec tee out <o 2>/dev/null ) &
evd_tee_out=$!
( trap '' PIPE; exec tee err <e >&2 2>/dev/null ) &
evd_tee_err=$!
command -v setsid >/dev/null 2>&1 || set -m 2>/dev/null
( evd_session sh "$evd_run/agent" "$evd_run" "$evd_work" "$evd_name" ) >o 2>e </dev/null &
evd_agent=$!
set +m 2>/dev/null
evd_watch "$evd_timeout" "$evd_grace" "$evd_agent" timedout
evd_dog=$!
evd_stopped=
# Told to stop from outside: end the agent, deliver nothing, so that nobody takes it for a measurement.
trap 'evd_stopped=1; evd_signal TERM "$evd_agent"; evd_watch "$evd_grace" 0 "$evd_agent" /dev/null' TERM INT
while :; do
  { wait "$evd_agent"; } 2>/dev/null
  evd_rc=$?
  kill -0 "$evd_agent" 2>/dev/null || break
done
# From here TERM ends the program itself. A trap of ours would also swallow a signal that a fresh subshell gets.
trap - TERM INT
kill -KILL -"$evd_agent" 2>/dev/null
kill "$evd_dog" 2>/dev/null
{ wait "$evd_dog"; } 2>/dev/null
evd_purge "$evd_tee_out" "$evd_tee_err"
[ -z "$evd_stopped" ] || { kill -KILL "$evd_tee_out" "$evd_tee_err" 2>/dev/null; exit 143; }
evd_ms
evd_duration=$((evd_now - evd_start))
evd_drained "$evd_tee_out" "$evd_tee_err"
evd_timedout=0
[ ! -f timedout ] || evd_timedout=1
evd_step=$(cat step 2>/dev/null)
`);

/** Graders and the work tree. Expects evd_step; sets evd_grades to words exit:nameBytes:name in base64. */
export const GRADE = compact(`
evd_grades= evd_grade_ms=0
# evd_limited SECONDS SCRIPT…: sets evd_rc; the last bytes of its output end in gout
evd_limited() {
  evd_sec=$1; shift
  rm -f limit g; mkfifo g
  tail -c ${GRADER_LOG_BYTES} <g >gout 2>/dev/null &
  evd_tail=$!
  ( evd_session sh "$@" ) >g 2>&1 </dev/null &
  evd_child=$!
  evd_watch "$evd_sec" 1 "$evd_child" limit
  evd_dog=$!
  { wait "$evd_child"; } 2>/dev/null
  evd_rc=$?
  kill -KILL -"$evd_child" 2>/dev/null
  kill "$evd_dog" 2>/dev/null
  { wait "$evd_dog"; } 2>/dev/null
  evd_purge "$evd_tail"
  evd_drained "$evd_tail"
  [ ! -f limit ] || evd_rc=${GRADER_TIMED_OUT}
}
# evd_grade INDEX NAME_BYTES NAME_BASE64
evd_grade() {
  evd_left=$(( ${GRADERS_SEC} - evd_grade_ms / 1000 ))
  [ "$evd_left" -le ${GRADER_SEC} ] || evd_left=${GRADER_SEC}
  if [ "$evd_left" -gt 0 ]; then
    evd_ms; evd_begin=$evd_now
    evd_limited "$evd_left" "$evd_run/grade" "$evd_run" "$evd_work" "$evd_name" "$1"
    evd_ms; evd_grade_ms=$((evd_grade_ms + evd_now - evd_begin))
    { printf '[grader '; printf %s "$3" | base64 -d; printf '] exit %s\\n' "$evd_rc"; cat gout; [ ! -s gout ] || printf '\\n'; } >&2
  else
    evd_rc=${GRADER_TIMED_OUT}
  fi
  evd_grades="$evd_grades $evd_rc:$2:$3"
}
# The work tree against the commit it started from, untracked files included, without touching its index.
evd_diff() {
  [ -s base ] && command -v git >/dev/null 2>&1 || return 0
  printf '%s\\n' 'cd "$1" || exit 1' 'GIT_INDEX_FILE=$2/index; export GIT_INDEX_FILE' \\
    'g() { git -c safe.directory="*" -c core.fsmonitor=false -c core.hooksPath=/dev/null "$@"; }' \\
    'g read-tree "$3" && g add -A && g diff --cached --no-ext-diff --no-textconv --no-color "$3" | head -c ${DIFF_BYTES} >"$2/diff"' >differ
  evd_limited ${GRADER_SEC} "$evd_run/differ" "$evd_work" "$evd_run" "$(cat base)"
}
`);

/** Builds and delivers the Outcome. Expects evd_step, evd_setup_text (base64) and evd_setup_bytes for a failed step. */
export const DELIVER = compact(`
evd_bytes() { printf '%s' "$(( $(wc -c <"$1") ))"; }
evd_host=$(hostname 2>/dev/null || uname -n 2>/dev/null || cat /etc/hostname 2>/dev/null)
evd_out=$(evd_bytes out) evd_err=$(evd_bytes err)
evd_head() {
  printf 'everdict 1\\n'
  if [ "$evd_step" = done ]; then
    printf 'exit %s\\n' "$evd_agent_rc"
  else
    printf 'exit -\\nsetup %s +%s\\n' "$evd_agent_rc" "$evd_setup_bytes"
    printf %s "$evd_setup_text" | base64 -d
    printf '\\n'
  fi
  printf 'ms %s\\ntimeout %s\\nnode +%s\\n%s\\n' "$evd_duration" "$evd_timedout" "\${#evd_host}" "$evd_host"
}
# evd_graded BYTES: the grader records that fit
evd_graded() {
  evd_room=$1 evd_skipped=
  for evd_g in $evd_grades; do
    evd_n=\${evd_g#*:} evd_n=\${evd_n%%:*}
    evd_room=$((evd_room - evd_n - 24))
    if [ "$evd_room" -lt 0 ]; then evd_skipped=1; continue; fi
    printf 'grader %s +%s\\n' "\${evd_g%%:*}" "$evd_n"
    printf %s "\${evd_g##*:}" | base64 -d
    printf '\\n'
  done
  [ -z "$evd_skipped" ] || printf 'cut +7\\ngraders\\n'
}
# evd_part KEEP FILE: exactly KEEP bytes and a newline
evd_part() { head -c "$1" "$2"; printf '\\n'; }
# evd_collect PATH_BYTES PATH_BASE64 FOLLOWING: one file that a grader names, as much of it as fits when a little room
# is kept for each of those that follow
evd_collect() {
  evd_path=$(printf %s "$2" | base64 -d; echo x)
  evd_path=\${evd_path%x}
  evd_at=$evd_work/$evd_path
  [ -f "$evd_at" ] || case $evd_path in "$evd_name"/*) evd_at=$evd_root/$evd_path ;; esac
  [ -f "$evd_at" ] && [ -r "$evd_at" ] || return 0
  evd_total=$(evd_bytes "$evd_at")
  evd_left=$((evd_left - $1 - 48))
  if [ "$evd_left" -lt 0 ]; then evd_cut=1; return 0; fi
  evd_kept=$(( evd_left / (2 * $3 + 1) ))
  [ "$evd_kept" -le ${FOLLOWING_BYTES} ] || evd_kept=${FOLLOWING_BYTES}
  head -c "$((evd_left - $3 * evd_kept))" "$evd_at" >part && evd_keep=$(evd_bytes part) || return 1
  [ "$evd_total" -ge "$evd_keep" ] || evd_total=$evd_keep
  printf 'file %s +%s +%s\\n%s\\n' "$evd_total" "$1" "$evd_keep" "$evd_path" >>raw && evd_part "$evd_keep" part >>raw || return 1
  printf '%s:%s:%s ' "$evd_total" "$1" "$2" >>sizes
  evd_left=$((evd_left - evd_keep))
}
evd_whole() {
  tail -c ${OUTCOME_STREAM_BYTES} out >out.tail && tail -c ${OUTCOME_STREAM_BYTES} err >err.tail || return 1
  evd_ko=$(evd_bytes out.tail) evd_ke=$(evd_bytes err.tail)
  {
    evd_head
    evd_graded 16000
    printf 'out %s +%s\\n' "$evd_out" "$evd_ko"; evd_part "$evd_ko" out.tail
    printf 'err %s +%s\\n' "$evd_err" "$evd_ke"; evd_part "$evd_ke" err.tail
  } >raw || return 1
  : >sizes
  evd_left=$(( ${OUTCOME_RAW_BYTES} - $(evd_bytes raw) - 128 )) evd_cut=
  evd_collect_all || return 1
  [ -z "$evd_cut" ] || printf 'cut +5\\nfiles\\n' >>raw
  if [ -f diff ]; then
    evd_total=$(evd_bytes diff) evd_keep=$(evd_bytes diff)
    [ "$evd_keep" -le "$evd_left" ] || evd_keep=$evd_left
    [ "$evd_keep" -ge 0 ] || evd_keep=0
    { printf 'diff %s +%s\\n' "$evd_total" "$evd_keep" && evd_part "$evd_keep" diff; } >>raw || return 1
  fi
}
# Exit codes, grades and sizes only; needs no disk.
evd_compact() {
  evd_head
  evd_graded 1200
  printf 'out %s +0\\n\\nerr %s +0\\n\\n' "$evd_out" "$evd_err"
  evd_room=700
  for evd_f in $(cat sizes 2>/dev/null); do
    evd_n=\${evd_f#*:} evd_n=\${evd_n%%:*}
    evd_room=$((evd_room - evd_n - 32))
    if [ "$evd_room" -lt 0 ]; then printf 'cut +5\\nfiles\\n'; break; fi
    printf 'file %s +%s +0\\n' "\${evd_f%%:*}" "$evd_n"
    printf %s "\${evd_f##*:}" | base64 -d
    printf '\\n\\n'
  done
  [ ! -f diff ] || printf 'cut +4\\ndiff\\n'
}
evd_line() { printf '${RESULT_MARK} %s ' "$evd_nonce"; base64 | tr -d '\\n'; }
if evd_whole 2>/dev/null && evd_line <raw >line 2>/dev/null; then
  evd_full=1
else
  # The disk is full: give its space back and deliver what needs none.
  rm -f out err raw line out.tail err.tail part
  evd_full=
fi
evd_say() { if [ -n "$evd_full" ]; then cat line; else evd_compact | evd_line; fi; }
if [ -n "\${EVD_TERMINATION_FILE:-}" ]; then
  if [ -n "$evd_full" ] && [ "$(evd_bytes raw)" -le ${COMPACT_RAW_BYTES} ]; then
    cat line >"$EVD_TERMINATION_FILE"
  else
    evd_compact | evd_line >"$EVD_TERMINATION_FILE"
  fi
fi
if [ -n "\${EVD_OUTCOME_FILE:-}" ]; then
  evd_say >"$EVD_OUTCOME_FILE.new" && mv "$EVD_OUTCOME_FILE.new" "$EVD_OUTCOME_FILE"
fi
# The result stands on a line of its own, and adds no empty one to output that ends with a newline.
evd_ended() { [ -f "$1" ] && { [ ! -s "$1" ] || [ "$(tail -c 1 "$1" | wc -l)" -eq 1 ]; }; }
{ evd_ended out && evd_ended err; } || printf '\\n'
evd_say; printf '\\n'
# Some drivers lose what is written just before the end.
[ -z "\${EVD_PAUSE_SEC:-}" ] || sleep "$EVD_PAUSE_SEC"
exit 0
`);
