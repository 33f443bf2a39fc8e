"""What the centre needs of a Matrix backend; ghosts and portals."""
