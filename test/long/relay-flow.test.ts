/* The same with a log of 1 GiB: EVERDICT_LONG is set here. */
import "../relay/flow.test.ts";
