import { fakeKillTarget, relayKills } from "../relay/kills.ts";

relayKills(fakeKillTarget, { cases: 200, kills: 20, slots: 20, timeoutMs: 600_000 });
