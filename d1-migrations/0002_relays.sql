CREATE TABLE `relays` (
	`id` text PRIMARY KEY NOT NULL,
	`workspace` text NOT NULL,
	`label` text NOT NULL,
	`created_by` text NOT NULL,
	`created_at` text NOT NULL
);
--> statement-breakpoint
CREATE UNIQUE INDEX `relays_by_label` ON `relays` (`workspace`,`label`);