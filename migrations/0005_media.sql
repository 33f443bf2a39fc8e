-- Media by its address. The bytes lie in files named by their hash, so that what is uploaded twice is kept once.
-- Without an uploader it is another server's, and kept as long as there is room. Times are in milliseconds.
CREATE TABLE media (
    origin text COLLATE "C" NOT NULL,
    media_id text COLLATE "C" NOT NULL,
    sha256 bytea NOT NULL CHECK (octet_length(sha256) = 32),
    size bigint NOT NULL CHECK (size >= 0),
    content_type text NOT NULL,
    file_name text,
    uploader text COLLATE "C",
    created_at bigint NOT NULL,
    last_used_at bigint NOT NULL,
    quarantined boolean NOT NULL,
    PRIMARY KEY (origin, media_id)
);
CREATE INDEX media_by_bytes ON media (sha256);
-- For the pruning of what other servers have.
CREATE INDEX media_of_others_by_use ON media (last_used_at) WHERE uploader IS NULL;
