CREATE TABLE `active_objects` (
	`kind` text NOT NULL,
	`name` text NOT NULL,
	`since` text NOT NULL,
	PRIMARY KEY(`kind`, `name`)
);
--> statement-breakpoint
CREATE TABLE `api_keys` (
	`id` text PRIMARY KEY NOT NULL,
	`workspace` text NOT NULL,
	`name` text NOT NULL,
	`hash` text NOT NULL,
	`scope` text NOT NULL,
	`role` text NOT NULL,
	`personal` integer NOT NULL,
	`issuer` text NOT NULL,
	`subject` text NOT NULL,
	`created_at` text NOT NULL,
	`last_used_at` text
);
--> statement-breakpoint
CREATE UNIQUE INDEX `api_keys_by_hash` ON `api_keys` (`hash`);--> statement-breakpoint
CREATE INDEX `api_keys_by_workspace` ON `api_keys` (`workspace`,`id`);--> statement-breakpoint
CREATE TABLE `audit` (
	`id` text PRIMARY KEY NOT NULL,
	`workspace` text NOT NULL,
	`at` text NOT NULL,
	`actor` text NOT NULL,
	`action` text NOT NULL,
	`target` text,
	`request_id` text NOT NULL,
	`detail` text
);
--> statement-breakpoint
CREATE INDEX `audit_by_workspace` ON `audit` (`workspace`,`id`);--> statement-breakpoint
CREATE TABLE `dataset_cases` (
	`owner` text NOT NULL,
	`dataset` text NOT NULL,
	`version` text NOT NULL,
	`seq` integer NOT NULL,
	`case_id` text NOT NULL,
	`body` text NOT NULL,
	PRIMARY KEY(`owner`, `dataset`, `version`, `seq`)
);
--> statement-breakpoint
CREATE TABLE `idempotency` (
	`key` text PRIMARY KEY NOT NULL,
	`body_hash` text NOT NULL,
	`seed` text NOT NULL,
	`status` integer,
	`answer` text,
	`created_at` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `idempotency_by_age` ON `idempotency` (`created_at`);--> statement-breakpoint
CREATE TABLE `members` (
	`workspace` text NOT NULL,
	`subject` text NOT NULL,
	`role` text NOT NULL,
	`created_at` text NOT NULL,
	PRIMARY KEY(`workspace`, `subject`)
);
--> statement-breakpoint
CREATE INDEX `members_by_subject` ON `members` (`subject`);--> statement-breakpoint
CREATE TABLE `registry` (
	`kind` text NOT NULL,
	`owner` text NOT NULL,
	`id` text NOT NULL,
	`version` text NOT NULL,
	`spec` text NOT NULL,
	`hash` text NOT NULL,
	`tags` text NOT NULL,
	`archived` integer DEFAULT false NOT NULL,
	`complete` integer DEFAULT true NOT NULL,
	`cases` integer DEFAULT 0 NOT NULL,
	`created_at` text NOT NULL,
	`created_by` text NOT NULL,
	PRIMARY KEY(`kind`, `owner`, `id`, `version`)
);
--> statement-breakpoint
CREATE TABLE `run_output` (
	`run_id` text PRIMARY KEY NOT NULL,
	`epoch` integer NOT NULL,
	`stdout` text NOT NULL,
	`stderr` text NOT NULL
);
--> statement-breakpoint
CREATE TABLE `runners` (
	`id` text PRIMARY KEY NOT NULL,
	`object` text NOT NULL,
	`owner` text NOT NULL,
	`label` text NOT NULL,
	`created_by` text NOT NULL,
	`created_at` text NOT NULL
);
--> statement-breakpoint
CREATE INDEX `runners_by_object` ON `runners` (`object`,`id`);--> statement-breakpoint
CREATE TABLE `runs` (
	`id` text PRIMARY KEY NOT NULL,
	`workspace` text NOT NULL,
	`status` text NOT NULL,
	`target` text NOT NULL,
	`object` text,
	`runtime_id` text,
	`runtime_version` text,
	`pinned_version` text,
	`harness_owner` text,
	`harness_id` text NOT NULL,
	`harness_version` text NOT NULL,
	`harness_spec` text,
	`case_id` text NOT NULL,
	`case_body` text,
	`trial` integer NOT NULL,
	`scorecard_id` text,
	`seq` integer,
	`retries` integer NOT NULL,
	`queue_timeout_sec` integer,
	`priority` text NOT NULL,
	`created_by` text NOT NULL,
	`created_at` text NOT NULL,
	`started_at` text,
	`finished_at` text,
	`epoch` integer DEFAULT 0 NOT NULL,
	`result` text,
	`failure` text,
	`failure_class` text,
	`provenance` text,
	`attempts` text DEFAULT '[]' NOT NULL,
	`score` real,
	`pass` integer,
	`replaced` integer DEFAULT false NOT NULL,
	`acknowledged` integer DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE INDEX `runs_by_workspace` ON `runs` (`workspace`,`id`);--> statement-breakpoint
CREATE INDEX `runs_by_scorecard` ON `runs` (`scorecard_id`,`seq`);--> statement-breakpoint
CREATE INDEX `runs_unacknowledged` ON `runs` (`created_at`) WHERE acknowledged = 0 and scorecard_id is null and status = 'queued';--> statement-breakpoint
CREATE TABLE `runtime_health` (
	`owner` text NOT NULL,
	`id` text NOT NULL,
	`state` text NOT NULL,
	`detail` text,
	`checked_at` text NOT NULL,
	`node_os` text NOT NULL,
	PRIMARY KEY(`owner`, `id`)
);
--> statement-breakpoint
CREATE TABLE `scorecards` (
	`id` text PRIMARY KEY NOT NULL,
	`workspace` text NOT NULL,
	`status` text NOT NULL,
	`dataset_owner` text NOT NULL,
	`dataset_id` text NOT NULL,
	`dataset_version` text NOT NULL,
	`harness_owner` text NOT NULL,
	`harness_id` text NOT NULL,
	`harness_version` text NOT NULL,
	`targets` text NOT NULL,
	`explicit_targets` integer NOT NULL,
	`concurrency` integer NOT NULL,
	`retries` integer NOT NULL,
	`trials` integer NOT NULL,
	`priority` text NOT NULL,
	`queue_timeout_sec` integer,
	`principal` text NOT NULL,
	`created_by` text NOT NULL,
	`created_at` text NOT NULL,
	`finished_at` text,
	`progress` text NOT NULL,
	`summary` text,
	`acknowledged` integer DEFAULT false NOT NULL,
	`complete` integer DEFAULT false NOT NULL
);
--> statement-breakpoint
CREATE INDEX `scorecards_by_workspace` ON `scorecards` (`workspace`,`id`);--> statement-breakpoint
CREATE INDEX `scorecards_unacknowledged` ON `scorecards` (`acknowledged`) WHERE acknowledged = 0;--> statement-breakpoint
CREATE TABLE `secrets` (
	`workspace` text NOT NULL,
	`name` text NOT NULL,
	`use` text NOT NULL,
	`hosts` text NOT NULL,
	`key_id` text NOT NULL,
	`sealed` text NOT NULL,
	`updated_at` text NOT NULL,
	`updated_by` text NOT NULL,
	PRIMARY KEY(`workspace`, `name`)
);
--> statement-breakpoint
CREATE TABLE `workspaces` (
	`id` text PRIMARY KEY NOT NULL,
	`name` text NOT NULL,
	`created_at` text NOT NULL,
	`weight` real DEFAULT 1 NOT NULL,
	`max_in_flight` integer,
	`queue_depth` integer DEFAULT 50000 NOT NULL
);
