-- When somebody was last disabled: what was asked for or allowed to them before stays ended when they are there again.

ALTER TABLE users ADD COLUMN disabled_at double precision NOT NULL DEFAULT 0;
