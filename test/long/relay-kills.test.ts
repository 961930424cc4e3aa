import { relayKills } from "../relay/kills.ts";

relayKills(200, 20, 600_000);
