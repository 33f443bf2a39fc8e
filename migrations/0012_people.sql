-- What people see of tasks, and where they ask for them.

-- A task as people see it. The messages are named by the ids of their events.
CREATE TABLE people_tasks (
    -- That of the task, which is forgotten earlier.
    task bigint PRIMARY KEY,
    requester_node text COLLATE "C" NOT NULL,
    request_id text COLLATE "C" NOT NULL,
    -- The address of whoever works on it.
    agent text COLLATE "C" NOT NULL,
    room_id text COLLATE "C" NOT NULL,
    -- The message that the thread hangs on, and the one that asks: another one when it is asked in the thread.
    root text COLLATE "C" NOT NULL,
    request text COLLATE "C" NOT NULL,
    -- The user who asked. Null: no person did, and the request is a message of this node.
    asked_by text COLLATE "C",
    -- Whether it is answered in a thread, or in the room itself, as in a chat of two.
    is_threaded boolean NOT NULL,
    -- What can be seen of how it stands, and the reaction that says so, if it is one.
    sign text CHECK (sign IN ('waiting', 'done', 'failed')),
    sign_event text COLLATE "C",
    -- The one message that is edited while it is worked on, and the answer.
    progress text COLLATE "C",
    answer text COLLATE "C",
    -- The edit or the redaction by which the request was withdrawn: nothing more is said of it.
    withdrawn_by text COLLATE "C",
    -- Milliseconds since 1970.
    made_at bigint NOT NULL
);
CREATE INDEX people_tasks_by_root ON people_tasks (root);
CREATE INDEX people_tasks_by_request ON people_tasks (request);
CREATE INDEX people_tasks_by_progress ON people_tasks (progress) WHERE progress IS NOT NULL;
CREATE INDEX people_tasks_by_answer ON people_tasks (answer) WHERE answer IS NOT NULL;
CREATE INDEX people_tasks_by_age ON people_tasks (made_at);

-- What is said once in a room and not again.
CREATE TABLE people_said_once (
    room_id text COLLATE "C" NOT NULL,
    what text COLLATE "C" NOT NULL,
    PRIMARY KEY (room_id, what)
);
