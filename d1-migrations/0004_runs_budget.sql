CREATE TABLE `run_usage` (
	`workspace` text NOT NULL,
	`month` text NOT NULL,
	`used` integer NOT NULL,
	`last_id` text NOT NULL,
	PRIMARY KEY(`workspace`, `month`)
);
--> statement-breakpoint
ALTER TABLE `workspaces` ADD `runs_budget` integer;