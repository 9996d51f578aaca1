ALTER TABLE clients ADD COLUMN rotation_key BYTEA;
CREATE TABLE joined (
    tunnel TEXT COLLATE "C" PRIMARY KEY,
    machine TEXT COLLATE "C" NOT NULL,
    how TEXT NOT NULL,
    at BIGINT NOT NULL
);
