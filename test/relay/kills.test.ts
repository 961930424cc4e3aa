import { fakeKillTarget, relayKills } from "./kills.ts";

relayKills(fakeKillTarget, { cases: 60, kills: 5, slots: 20, timeoutMs: 200_000 });
