-- What has taken the task back, so that it does not answer itself when it is read again after a kill.
ALTER TABLE people_tasks ADD COLUMN cancelled_by text COLLATE "C";
