#!/usr/bin/env node
import { everdictCli } from "./cli.ts";

await everdictCli().parseAsync();
